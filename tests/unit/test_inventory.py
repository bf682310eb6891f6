"""The inventory: what is refused, where the message points, and which hosts are selected."""

from itertools import pairwise

import pytest

from provision import inventory
from provision.errors import UsageError
from provision.stack import Repository

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
  none: []
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
    "a host that stands twice": (
        "default: a\nhosts:\n  a: {stack: one}\n  a: {stack: two}\n",
        4,
        ("hosts.a", "stands twice, first in line 3"),
    ),
    "a field that stands twice": (
        "default: a\nhosts:\n  a:\n    stack: one\n    stack: two\n",
        5,
        ("hosts.a.stack", "stands twice, first in line 4"),
    ),
    "a name of one's own": (
        "default: a\nhosts:\n  a: {stack: one, name: z}\n",
        3,
        ("hosts.a.name", "unknown field"),
    ),
    "a place of one's own": (
        "default: a\nhosts:\n  a: {stack: one, where: z}\n",
        3,
        ("hosts.a.where", "unknown field"),
    ),
    "a file of one's own": (
        "default: a\nfile: x\nhosts:\n  a: {stack: one}\n",
        2,
        ("file", "unknown field"),
    ),
    "defaults that are a word": (
        "default: a\ndefaults: x\nhosts:\n  a: {stack: one}\n",
        2,
        ("defaults", "expected a mapping"),
    ),
    "a connection of another kind": (
        "default: a\nhosts:\n  a:\n    stack: one\n    connection: telnet\n",
        5,
        ("hosts.a.connection", "'ssh' or 'local'", "'telnet'"),
    ),
    "a fingerprint of MD5": (
        "default: a\nhosts:\n  a:\n    stack: one\n    host_key: MD5:12:34\n",
        5,
        ("hosts.a.host_key", "pattern", "'MD5:12:34'"),
    ),
    "an unknown field of a site": (
        "default: a\nhosts:\n  a:\n    stack: one\n    site: {porxy: x}\n",
        5,
        ("hosts.a.site.porxy", "unknown field"),
    ),
    "a proxy without a scheme": (
        "default: a\nhosts:\n  a:\n    stack: one\n    site: {proxy: 'proxy:3128'}\n",
        5,
        ("hosts.a.site.proxy", "pattern", "'proxy:3128'"),
    ),
    "an index of another scheme": (
        "default: a\nhosts:\n  a:\n    stack: one\n    site: {index: 'file:///srv'}\n",
        5,
        ("hosts.a.site.index", "pattern", "'file:///srv'"),
    ),
    "a CA that is not there": (
        "default: a\nhosts:\n  a:\n    stack: one\n    site: {ca: none.pem}\n",
        5,
        ("hosts.a.site.ca", "can't be read", "none.pem"),
    ),
    "a repository without a key": (
        "default: a\nhosts:\n  a:\n    stack: one\n    repository: {url: 'http://x'}\n",
        5,
        ("hosts.a.repository.fingerprint", "required"),
    ),
    "a group that is a word": (
        "default: a\nhosts:\n  a: {stack: one}\ngroups:\n  all: a\n",
        5,
        ("groups.all", "expected a list", "'a'"),
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


def test_a_number_as_a_host_s_name_is_refused():
    with pytest.raises(UsageError, match="hosts: 1 is no text") as caught:
        parsed("default: a\nhosts:\n  1: {stack: one}\n  a: {stack: one}\n")
    assert "quotes" in caught.value.hint


def test_a_number_as_a_host_s_name_is_named_where_it_stands():
    with pytest.raises(UsageError, match=r"^inventory\.yaml:3: "):
        parsed("default: a\nhosts:\n  1: {stack: one}\n  a: {stack: one}\n")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("default: 2026-13-45\n", 1, "'2026-13-45' is no timestamp"),
        ("default: a\nhosts: &x\n  a: *x\n", 2, "an alias that holds itself"),
        ("default: !!timestamp soon\n", 1, "'soon' is no timestamp"),
        ("default: a\nx: !!bool perhaps\n", 2, "'perhaps' is no bool"),
        ("x: !!int ''\n", 1, "'' is no int"),
        ("x: !!python/object:os.system y\n", 1, "could not determine a constructor"),
        ("\n? [a]\n: b\n", 2, "unhashable key"),
        ("x: " + "[" * 1000, 1, "nested too deeply"),
        ("a: 1\nb: \x00\n", 2, "character 0x0 is not allowed"),
        (
            "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
            + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in pairwise("abcdefg")),
            5,
            "or too many",
        ),
    ],
)
def test_what_yaml_alone_can_t_make_sense_of(text, line, words):
    with pytest.raises(UsageError, match=rf"^inventory\.yaml:{line}: ") as caught:
        parsed(text)
    assert words in caught.value.what


def test_what_came_by_an_alias_is_named_where_the_alias_stands():
    text = "default: a\nhosts:\n  a: &a\n    stack: one\n  b:\n    <<: *a\n    port: x\n"
    with pytest.raises(UsageError, match=r"^inventory\.yaml:7: hosts\.b\.port: "):
        parsed(text)
    with pytest.raises(UsageError, match=r"^inventory\.yaml:3: defaults\.1: unknown field"):
        parsed("default: a\nhosts: {}\ndefaults: {1: 2}\n")
    with pytest.raises(UsageError, match=r"^inventory\.yaml:1: file: unknown field"):
        parsed("<<: {file: x}\nhosts: {}\n")


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
        ("site: {porxy: x}", inventory.Site),
        ("repository: {url: 'http://x', fingerprint: '" + "A" * 40 + "', adress: x}", Repository),
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
        ((), ("z",), "inventory.yaml: there is no group 'z'", "groups there: left, right, none"),
        ((), ("none",), "inventory.yaml: group 'none' is empty", ""),
        (("a", "left"), (), "inventory.yaml: there is no host 'left'", "hosts there: a, b, c"),
    ],
)
def test_selecting_what_the_inventory_does_not_hold(hosts, groups, what, hint):
    with pytest.raises(UsageError) as caught:
        parsed().select(hosts, groups)
    assert (caught.value.what, caught.value.hint) == (what, hint)


@pytest.mark.parametrize("address", ["gpu01", "192.0.2.7", "2001:db8::7", "::1", "fe80::1%eth0"])
def test_an_address_is_a_name_or_a_number(address):
    host = parsed(f"default: a\nhosts:\n  a: {{stack: one, address: '{address}'}}\n").hosts["a"]
    assert host.address == address


def test_the_environment_variable_names_another_inventory(tmp_path, monkeypatch):
    other = tmp_path / "other.yaml"
    other.write_text(GOOD)
    monkeypatch.setenv(inventory.VARIABLE, str(other))
    assert inventory.load().file == "other.yaml"


def test_without_the_variable_it_is_the_shipped_one(monkeypatch):
    monkeypatch.delenv(inventory.VARIABLE, raising=False)
    assert inventory.load().file == "inventory.yaml"
    monkeypatch.setenv(inventory.VARIABLE, "")
    assert inventory.load().file == "inventory.yaml"


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match=r"none\.yaml: can't be read") as caught:
        inventory.load(tmp_path / "none.yaml")
    assert "FIRSTLIGHT_INVENTORY" in caught.value.hint


def test_a_file_that_is_not_text(tmp_path):
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"binary\.yaml: can't be read"):
        inventory.load(tmp_path / "binary.yaml")
