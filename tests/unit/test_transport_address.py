"""Where a login goes: OpenSSH's own reading of its configuration."""

from pathlib import Path

import pytest
from samples import capture

from provision.errors import UsageError
from provision.transport.address import Address, address, parse_config, resolve

SYSTEM = (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"))
MINIMAL = "hostname h\nport 22\nuser root\n"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder with one key of the default names, and one that a configuration names."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    for name in ("id_ed25519", "fleet"):
        (tmp_path / ".ssh" / name).touch()
    return tmp_path / ".ssh"


def read(text, jump=None):
    return address(parse_config(text), jump)


def test_a_host_that_the_configuration_does_not_name(home):
    assert read(capture("ssh-config-plain.txt")) == Address(
        hostname="plain",
        name="plain",
        port=22,
        user="root",
        identities=(str(home / "id_ed25519"),),
        known_hosts=(home / "known_hosts", home / "known_hosts2", *SYSTEM),
    )


def test_a_host_with_its_own_key_and_known_hosts(home):
    assert read(capture("ssh-config-identities-only.txt")) == Address(
        hostname="only.example",
        name="only",
        port=22,
        user="ops",
        identities=(str(home / "fleet"),),
        identities_only=True,
        known_hosts=(home / "known_hosts", home / "known_hosts_lab", *SYSTEM),
    )


@pytest.mark.parametrize(
    ("line", "field", "expected"),
    [
        ("identitiesonly yes", "identities_only", True),
        ("identitiesonly no", "identities_only", False),
        ("identityfile /no/such/key", "identities", ()),
        ('userknownhostsfile "/a b" /c', "known_hosts", (Path("/a b"), Path("/c"))),
        ("hostkeyalias gpu", "host_key_alias", "gpu"),
        ("hostkeyalias none", "host_key_alias", None),
        ("serveraliveinterval 7", "keepalive", 7),
        ("serveraliveinterval 0", "keepalive", 15),
        ("proxycommand nc %h %p", "proxy_command", "nc %h %p"),
        ("proxycommand none", "proxy_command", None),
    ],
)
def test_one_line_of_the_configuration(line, field, expected):
    assert getattr(read(f"{MINIMAL}{line}\n"), field) == expected


def test_a_configuration_that_wants_no_known_hosts_file_names_none():
    one = read(f"{MINIMAL}userknownhostsfile none\nglobalknownhostsfile /etc/a\n")
    assert (one.known_hosts, one.remembers) == ((Path("/etc/a"),), False)


@pytest.mark.parametrize(
    ("port", "alias", "expected"),
    [(22, None, "h"), (2200, None, "[h]:2200"), (22, "gpu", "gpu"), (2200, "gpu", "gpu")],
)
def test_the_name_under_which_known_hosts_has_the_key(port, alias, expected):
    one = Address(hostname="h", port=port, user="root", host_key_alias=alias)
    assert one.key_name == expected


# --- asking ssh --------------------------------------------------------------------------------


def test_ssh_is_asked_with_what_the_inventory_says(tmp_path, fake_ssh, entry):
    said = tmp_path / "said"
    fake_ssh(f'printf "%s\\n" "$@" >{said}; printf "{MINIMAL}"')
    resolve(entry(address="gpu01", user="ops", port=2222, ssh_config=Path("/c")))
    assert said.read_text().split("\n")[:-1] == [
        *("-F", "/c", "-p", "2222", "-l", "ops", "-G"),
        *("--", "gpu01"),
    ]


def test_a_computer_without_ssh(tmp_path, monkeypatch, entry):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="there is no `ssh`") as caught:
        resolve(entry(address="gpu01"))
    assert "openssh-client" in caught.value.hint


def test_a_configuration_that_ssh_refuses(fake_ssh, entry):
    fake_ssh('echo "config: line 1: Bad option" >&2; exit 255')
    with pytest.raises(UsageError, match=r"inventory\.yaml:3: ssh -G gpu01: config: line 1: Bad"):
        resolve(entry(address="gpu01"))


SCRIPT = """\
user=me; port=22; jump=none
while [ "$1" != -- ]; do
    case "$1" in
        -l) user=$2; shift ;;
        -p) port=$2; shift ;;
    esac
    shift
done
case "$2" in
%s
esac
printf 'hostname %%s.example\\nport %%s\\nuser %%s\\nproxyjump %%s\\n' "$2" "$port" "$user" "$jump"
"""
"""ssh -G of a configuration that names some hosts' ProxyJump."""


@pytest.fixture
def jumps(fake_ssh, entry):
    """The address of a host, and those that it goes through, the nearest to it first."""

    def chain(name, **proxyjump):
        fake_ssh(SCRIPT % "\n".join(f"{one}) jump='{way}' ;;" for one, way in proxyjump.items()))
        found = []
        one = resolve(entry(address=name))
        while one:
            found.append(f"{one.user}@{one.hostname}:{one.port}")
            one = one.jump
        return found

    return chain


def test_a_host_behind_another(jumps):
    assert jumps("far", far="gate") == ["me@far.example:22", "me@gate.example:22"]


def test_a_chain_of_hosts_is_gone_through_in_its_order(jumps):
    assert jumps("far", far="ops@one:2222,two") == [
        "me@far.example:22",
        "me@two.example:22",
        "ops@one.example:2222",
    ]


def test_the_first_hop_may_have_a_hop_of_its_own(jumps):
    assert jumps("far", far="gate", gate="outer") == [
        "me@far.example:22",
        "me@gate.example:22",
        "me@outer.example:22",
    ]


def test_a_later_hop_is_reached_through_the_one_before_it_whatever_its_own_configuration(jumps):
    assert jumps("far", far="one,two", two="elsewhere") == [
        "me@far.example:22",
        "me@two.example:22",
        "me@one.example:22",
    ]


def test_no_jump_where_the_configuration_says_none(jumps):
    assert jumps("near", near="none") == ["me@near.example:22"]


def test_a_chain_that_goes_in_circles(jumps):
    with pytest.raises(UsageError, match=r"inventory\.yaml:3: ProxyJump goes in circles at "):
        jumps("a", a="b", b="a")


@pytest.mark.parametrize(
    ("hop", "expected"),
    [
        ("ops@[10.0.0.1]:2222", "ops@10.0.0.1.example:2222"),
        ("ops@[10.0.0.1]", "ops@10.0.0.1.example:22"),
        ("[::1]:22", "me@::1.example:22"),
        ("a@b@one:2222", "a@b@one.example:2222"),
        ("ssh://ops@one:2222/", "ops@one.example:2222"),
    ],
)
def test_a_hop_stands_as_ssh_prints_it_or_as_the_user_wrote_it(jumps, hop, expected):
    assert jumps("far", far=hop)[1] == expected


def test_a_hop_that_can_t_be_read(jumps):
    with pytest.raises(UsageError, match=r"ssh -G far: ProxyJump goes through 'one:two'"):
        jumps("far", far="one:two")


def test_a_jump_goes_before_a_proxy_command():
    gate = Address(hostname="gate", port=22, user="root")
    one = read(f"{MINIMAL}proxycommand nc %h %p\n", gate)
    assert (one.jump, one.proxy_command) == (gate, None)
