"""The inventory: what is refused, where the message points, and which hosts are selected."""

import pytest

from provision import inventory
from provision.errors import UsageError

GOOD = """\
default: a
hosts:
  a:
    stack: one
    gpus: {count: 8, model: Some GPU}
  b:
    address: b.example
    user: root
    port: 2222
    stack: two
  c: {stack: one, lab: {suite: trixie}}
groups:
  left: [a, b]
  right: [b, c]
"""


def parsed(text=GOOD):
    return inventory.parse(text, "inventory.yaml")


BAD = {
    "YAML that is cut short": ("default: a\nhosts: {a: {stack: one}\n", 3, ("expected",)),
    "a tab as indentation": ("default: a\nhosts:\n\ta: {}\n", 3, ("cannot start",)),
    "no default": ("hosts:\n  a: {stack: one}\n", 1, ("default", "required")),
    "a host that is no mapping": ("default: a\nhosts:\n  a: one\n", 3, ("hosts.a", "mapping")),
    "a host without a value": ("default: a\nhosts:\n  a:\n", 3, ("hosts.a", "mapping", "None")),
    "a host without a stack": (
        "default: a\nhosts:\n  a:\n    user: root\n",
        3,
        ("hosts.a.stack", "required"),
    ),
    "an unknown field of a host": (
        "default: a\nhosts:\n  a:\n    stack: one\n    adress: x\n",
        5,
        ("hosts.a.adress", "unknown field"),
    ),
    "an unknown field of gpus": (
        "default: a\nhosts: {a: {stack: one, gpus: {count: 8, model: x,\n  number: 8}}}\n",
        3,
        ("hosts.a.gpus.number", "unknown field"),
    ),
    "an unknown field of a lab": (
        "default: a\nhosts:\n  a:\n    stack: one\n    lab:\n      ram: 8\n",
        6,
        ("hosts.a.lab.ram", "unknown field"),
    ),
    "an unknown field of the file": (
        "default: a\nhost: {}\nhosts:\n  a: {stack: one}\n",
        2,
        ("host", "unknown field"),
    ),
    "an unknown suite": (
        "default: a\nhosts:\n  a:\n    stack: one\n    lab: {suite: buster}\n",
        5,
        ("hosts.a.lab.suite", "'bookworm' or 'trixie'", "'buster'"),
    ),
    "a port that is a word": (
        "default: a\nhosts:\n  a:\n    stack: one\n    port: ssh\n",
        5,
        ("hosts.a.port", "integer", "'ssh'"),
    ),
    "a port out of range": (
        "default: a\nhosts:\n  a:\n    stack: one\n    port: 65536\n",
        5,
        ("hosts.a.port", "65535", "65536"),
    ),
    "a negative number of GPUs": (
        "default: a\nhosts:\n  a:\n    stack: one\n    gpus: {count: -1, model: x}\n",
        5,
        ("hosts.a.gpus.count", "greater than or equal to 1", "-1"),
    ),
    "GPUs without a model": (
        "default: a\nhosts:\n  a:\n    stack: one\n    gpus: {count: 1}\n",
        5,
        ("hosts.a.gpus.model", "required"),
    ),
    "a user with a space": (
        "default: a\nhosts:\n  a:\n    stack: one\n    user: some one\n",
        5,
        ("hosts.a.user", "pattern", "'some one'"),
    ),
    "a stack that is a path": (
        "default: a\nhosts:\n  a:\n    stack: ../one\n",
        4,
        ("hosts.a.stack", "pattern", "'../one'"),
    ),
    "a host's name with a slash": (
        "default: a\nhosts:\n  a/b:\n    stack: one\n",
        3,
        ("hosts.a/b", "pattern"),
    ),
    "a default that is no host": (
        "default: b\nhosts:\n  a: {stack: one}\n",
        1,
        ("default", "there is no host 'b'"),
    ),
    "a group that names an unknown host": (
        "default: a\nhosts:\n  a: {stack: one}\ngroups:\n  all:\n    - a\n    - z\n",
        7,
        ("groups.all.1", "there is no host 'z'"),
    ),
    "a group that is a word": (
        "default: a\nhosts:\n  a: {stack: one}\ngroups:\n  all: a\n",
        5,
        ("groups.all", "tuple", "'a'"),
    ),
}


@pytest.mark.parametrize("case", BAD, ids=BAD)
def test_the_message_names_file_line_and_field(case):
    text, line, words = BAD[case]
    with pytest.raises(UsageError) as caught:
        parsed(text)
    assert caught.value.exit_code == 2
    assert caught.value.what.startswith(f"inventory.yaml:{line}: ")
    assert [word for word in words if word not in caught.value.what] == []


ADDRESSES = {
    "single quotes": "gpu'01",
    "double quotes": 'gpu\\"01',
    "a newline at the end": "gpu01\\n",
    "a newline inside": "gpu01\\nrm",
    "a command substitution": "$(reboot)",
    "a backtick": "`reboot`",
    "a leading dash": "-oProxyCommand=x",
    "a user in front": "root@gpu01",
    "a space": "gpu 01",
    "nothing at all": "",
}


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
def test_an_address_that_a_shell_or_ssh_could_misread_is_refused(address):
    with pytest.raises(UsageError) as caught:
        parsed(f'default: a\nhosts:\n  a:\n    stack: one\n    address: "{address}"\n')
    assert caught.value.what.startswith("inventory.yaml:5: hosts.a.address: ")
    assert "pattern" in caught.value.what


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "- a\n- b\n", "a", "default: a\n", "default: a\nhosts: [a]\n"]
)
def test_a_file_without_a_mapping_of_hosts(text):
    with pytest.raises(UsageError, match=r"inventory\.yaml.*: hosts: expected a mapping"):
        parsed(text)


@pytest.mark.parametrize(
    ("line", "model"),
    [
        ("adress: x", inventory.Host),
        ("gpus: {number: 1, count: 1, model: x}", inventory.Gpus),
        ("lab: {ram: 1}", inventory.Lab),
    ],
)
def test_the_hint_lists_the_fields_of_the_very_mapping(line, model):
    with pytest.raises(UsageError) as caught:
        parsed(f"default: a\nhosts:\n  a:\n    stack: one\n    {line}\n")
    ours = {"name", "where"}
    assert caught.value.hint.startswith("fields there: ")
    listed = caught.value.hint.removeprefix("fields there: ").split(", ")
    assert set(listed) == model.model_fields.keys() - ours


def test_unknown_names_come_with_those_that_there_are():
    with pytest.raises(UsageError) as caught:
        parsed("default: b\nhosts:\n  a: {stack: one}\n")
    assert caught.value.hint == "hosts there: a"


def test_a_good_inventory():
    hosts = parsed().hosts
    assert (hosts["a"].address, hosts["a"].where) == ("a", "inventory.yaml:3")
    assert hosts["a"].gpus == inventory.Gpus(count=8, model="Some GPU")
    assert (hosts["b"].address, hosts["b"].user, hosts["b"].port) == ("b.example", "root", 2222)
    assert hosts["b"].where == "inventory.yaml:7"
    assert hosts["c"].lab == inventory.Lab(suite="trixie", hardware="rtxpro6000-8x")


@pytest.mark.parametrize(
    ("hosts", "groups", "expected"),
    [
        ((), (), ["a"]),
        (("c", "a"), (), ["c", "a"]),
        (("a", "a"), (), ["a"]),
        ((), ("left",), ["a", "b"]),
        ((), ("left", "right"), ["a", "b", "c"]),
        (("c",), ("left",), ["c", "a", "b"]),
    ],
)
def test_each_host_is_selected_once_in_the_order_asked(hosts, groups, expected):
    assert [host.name for host in parsed().select(hosts, groups)] == expected


@pytest.mark.parametrize(
    ("hosts", "groups", "what", "hint"),
    [
        (("z",), (), "inventory.yaml: there is no host 'z'", "hosts there: a, b, c"),
        ((), ("z",), "inventory.yaml: there is no group 'z'", "groups there: left, right"),
        (("a", "left"), (), "inventory.yaml: there is no host 'left'", "hosts there: a, b, c"),
    ],
)
def test_selecting_what_the_inventory_does_not_hold(hosts, groups, what, hint):
    with pytest.raises(UsageError) as caught:
        parsed().select(hosts, groups)
    assert (caught.value.what, caught.value.hint) == (what, hint)


def test_the_environment_variable_names_another_inventory(tmp_path, monkeypatch):
    other = tmp_path / "other.yaml"
    other.write_text(GOOD)
    monkeypatch.setenv(inventory.VARIABLE, str(other))
    assert inventory.load().file == "other.yaml"


def test_without_the_variable_it_is_the_shipped_one(monkeypatch):
    monkeypatch.delenv(inventory.VARIABLE, raising=False)
    assert inventory.load().file == "inventory.yaml"


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match=r"none\.yaml: can't be read") as caught:
        inventory.load(tmp_path / "none.yaml")
    assert "FIRSTLIGHT_INVENTORY" in caught.value.hint


def test_a_file_that_is_not_text(tmp_path):
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"binary\.yaml: can't be read"):
        inventory.load(tmp_path / "binary.yaml")
