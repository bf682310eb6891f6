"""The transport: OpenSSH's own reading of its configuration, and a real server on this computer."""

import dataclasses
import os
import socket
import threading
from pathlib import Path

import paramiko
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from provision import inventory, transport
from provision.errors import TransportError, UsageError
from provision.transport import Address, Recorded, Ssh, parse_config

CAPTURES = Path(__file__).parent / "captures"


# --- configuration -----------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder with one key of the default names, and one that a configuration names."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    for name in ("id_ed25519", "fleet"):
        (tmp_path / ".ssh" / name).touch()
    return tmp_path / ".ssh"


def config(name):
    return parse_config((CAPTURES / f"ssh-config-{name}.txt").read_text())


SYSTEM = (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"))


def test_a_host_that_the_configuration_does_not_name(home):
    assert config("plain") == Address(
        hostname="plain",
        port=22,
        user="root",
        identities=(str(home / "id_ed25519"),),
        known_hosts=(home / "known_hosts", home / "known_hosts2", *SYSTEM),
        agent=True,
        proxy_jump=None,
    )


def test_a_host_with_its_own_key_and_known_hosts(home):
    assert config("identities-only") == Address(
        hostname="only.example",
        port=22,
        user="ops",
        identities=(str(home / "fleet"),),
        known_hosts=(home / "known_hosts", home / "known_hosts_lab", *SYSTEM),
        agent=False,
        proxy_jump=None,
    )


def test_a_host_behind_another(home):
    address = config("proxyjump")
    assert (address.hostname, address.port, address.user) == ("192.0.2.7", 2200, "ops")
    assert address.proxy_jump == "ops@gate"


MINIMAL = "hostname h\nport 22\nuser root\n"


@pytest.mark.parametrize(
    ("line", "field", "expected"),
    [
        ("proxyjump none", "proxy_jump", None),
        ("proxyjump a,b", "proxy_jump", "a,b"),
        ("identitiesonly yes", "agent", False),
        ("identitiesonly no", "agent", True),
        ("identityfile /no/such/key", "identities", ()),
        ('userknownhostsfile "/a b" /c', "known_hosts", (Path("/a b"), Path("/c"))),
        ("userknownhostsfile none", "known_hosts", (Path("none"),)),
    ],
)
def test_one_line_of_the_configuration(line, field, expected):
    assert getattr(parse_config(f"{MINIMAL}{line}\n"), field) == expected


def entry(**fields):
    return inventory.Host(name="h", where="inventory.yaml:3", stack="lab", **fields)


def fake_ssh(folder, script, monkeypatch):
    folder.joinpath("ssh").write_text(f"#!/bin/sh\n{script}\n")
    folder.joinpath("ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_ssh_is_asked_with_what_the_inventory_says(tmp_path, monkeypatch):
    said = tmp_path / "said"
    fake_ssh(tmp_path, f'printf "%s\\n" "$@" >{said}; printf "{MINIMAL}"', monkeypatch)
    transport.resolve(entry(address="gpu01", user="ops", port=2222, ssh_config=Path("/c")))
    assert said.read_text().split("\n")[:-1] == [
        *("-G", "-F", "/c", "-p", "2222", "-l", "ops"),
        *("--", "gpu01"),
    ]


def test_a_computer_without_ssh(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="there is no `ssh`") as caught:
        transport.resolve(entry(address="gpu01"))
    assert "openssh-client" in caught.value.hint


def test_a_configuration_that_ssh_refuses(tmp_path, monkeypatch):
    fake_ssh(tmp_path, 'echo "config: line 1: Bad option" >&2; exit 255', monkeypatch)
    with pytest.raises(UsageError, match=r"inventory\.yaml:3: ssh -G gpu01: config: line 1: Bad"):
        transport.resolve(entry(address="gpu01"))


# --- a server ----------------------------------------------------------------------------------


def new_key(file):
    """A key of OpenSSH's kind, in a file only we may read."""
    content = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    file.write_bytes(content)
    file.chmod(0o600)
    return paramiko.Ed25519Key(filename=str(file))


def read_all(channel):
    data = b""
    while chunk := channel.recv(1 << 16):
        data += chunk
    return data


class Server(paramiko.ServerInterface):
    """One login at a time; each command is answered by what its first word names below."""

    def __init__(self, host_key, user_key):
        self.host_key, self.user_key = host_key, user_key
        self.logins = []
        self.commands = []
        self.stopped = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.threads = [threading.Thread(target=self.accept, daemon=True)]
        self.threads[0].start()

    def accept(self):
        while not self.stopped.is_set():
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            login = paramiko.Transport(client)
            self.logins.append(login)
            login.add_server_key(self.host_key)
            try:
                login.start_server(server=self, event=threading.Event())
            except paramiko.SSHException:
                login.close()

    def stop(self):
        self.stopped.set()
        self.listener.close()
        for login in self.logins:
            login.close()

    def get_allowed_auths(self, username):
        return "publickey"

    def check_auth_publickey(self, username, key):
        good = key == self.user_key
        return paramiko.AUTH_SUCCESSFUL if good else paramiko.AUTH_FAILED

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel, command):
        self.commands.append(command.decode())
        word = command.decode().split()[0]
        threading.Thread(target=getattr(self, f"do_{word}"), args=(channel,), daemon=True).start()
        return True

    def do_sudo(self, channel):
        self.do_cat(channel)

    def do_cat(self, channel):
        """Gives back what it is told, and says how much on the other stream."""
        data = read_all(channel)
        channel.sendall(data)
        channel.sendall_stderr(f"{len(data)} bytes".encode())
        channel.send_exit_status(7 if data.startswith(b"fail") else 0)
        channel.close()

    def do_sleep(self, channel):
        """Never answers."""
        self.stopped.wait()

    def do_cut(self, channel):
        """Says half of something, then the connection is gone."""
        read_all(channel)
        channel.sendall(b"one\nhalf")
        self.logins[-1].close()

    def do_fail(self, channel):
        """Ends with an error after its first line."""
        read_all(channel)
        channel.sendall(b"one\n")
        channel.sendall_stderr(b"no such thing\n")
        channel.send_exit_status(1)
        channel.close()


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    return {name: (folder / name, new_key(folder / name)) for name in ("host", "user", "other")}


@pytest.fixture
def server(keys):
    server = Server(keys["host"][1], keys["user"][1])
    yield server
    server.stop()


@pytest.fixture
def login(server, keys, tmp_path):
    """Makes a login to the server, with what it is told to trust and to offer."""
    logins = []

    def make(*, trust="host", offer="user", **fields):
        known = tmp_path / "known_hosts"
        if trust:
            key = keys[trust][1]
            name = f"[127.0.0.1]:{server.port}"
            known.write_text(f"{name} {key.get_name()} {key.get_base64()}\n")
        address = Address(
            hostname="127.0.0.1",
            port=server.port,
            user="root",
            identities=(str(keys[offer][0]),),
            known_hosts=(tmp_path / "none", known),
            agent=False,
            proxy_jump=None,
        )
        host = entry(address="127.0.0.1")
        logins.append(Ssh(host, dataclasses.replace(address, **fields)))
        return logins[-1]

    yield make
    for one in logins:
        one.close()


def cost(ssh):
    return (ssh.cost.sessions, ssh.cost.execs)


def test_a_command_gets_its_input_and_gives_output_and_exit_code(login, server):
    ssh = login()
    data = bytes(range(128)) * 5000
    done = ssh.run(("cat", "a b", "$(x)"), data, deadline=10)
    assert done.out.encode() == data
    assert (done.err, done.exit) == (f"{len(data)} bytes", 0)
    assert ssh.run(("cat",), b"fail", deadline=10).exit == 7
    assert server.commands == ["cat 'a b' '$(x)'", "cat"]


def test_two_commands_are_one_session(login, server):
    ssh = login()
    ssh.run(("cat",), b"", deadline=10)
    assert list(ssh.follow(("cat",), b"one\ntwo\n", silence=10)) == ["one", "two"]
    assert cost(ssh) == (1, 2)
    assert len(server.logins) == 1


def test_after_closing_the_next_command_logs_in_again(login):
    ssh = login()
    ssh.run(("cat",), b"", deadline=10)
    ssh.close()
    assert ssh.run(("cat",), b"x", deadline=10).out == "x"
    assert cost(ssh) == (2, 2)


def test_a_user_who_is_not_root_asks_sudo_without_a_password(login, server):
    login(user="ops").run(("cat", "a b"), b"", deadline=10)
    assert server.commands == ["sudo -n -- cat 'a b'"]


def test_output_that_is_no_text_is_kept_readable(login):
    assert login().run(("cat",), b"a\xffb", deadline=10).out == "a\N{REPLACEMENT CHARACTER}b"


def test_a_host_key_that_is_not_known_is_refused_with_its_fingerprint(login, server, keys):
    ssh = login(trust=None)
    with pytest.raises(TransportError, match="is not known") as caught:
        ssh.run(("cat",), b"", deadline=10)
    assert transport.fingerprint(keys["host"][1]) in caught.value.what
    assert f"ssh-keyscan -p {server.port} 127.0.0.1" in caught.value.hint
    assert (cost(ssh), server.commands) == ((0, 0), [])


def test_a_host_key_that_has_changed_is_refused_with_both_fingerprints(login, server, keys):
    with pytest.raises(TransportError, match="has CHANGED") as caught:
        login(trust="other").run(("cat",), b"", deadline=10)
    for name in ("host", "other"):
        assert transport.fingerprint(keys[name][1]) in caught.value.what
    assert f"ssh-keygen -R '[127.0.0.1]:{server.port}'" in caught.value.hint
    assert server.commands == []


def test_a_key_that_the_host_does_not_want(login, keys):
    with pytest.raises(TransportError, match=r"root@127\.0\.0\.1 refuses us") as caught:
        login(offer="other").run(("cat",), b"", deadline=10)
    assert str(keys["other"][0]) in caught.value.hint


def test_a_port_where_nobody_listens(login):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(TransportError, match=f"port {port} can't be reached") as caught:
        login(port=port).run(("cat",), b"", deadline=10)
    assert "inventory.yaml:3" in caught.value.hint


def test_a_name_that_can_t_be_resolved(login, monkeypatch):
    def unknown(*_args, **_options):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(TransportError, match=r"the name gpu01\.example can't be resolved"):
        login(hostname="gpu01.example").run(("cat",), b"", deadline=10)


def test_a_command_that_never_answers(login):
    with pytest.raises(TransportError, match=r"h: no answer within 0\.2 s"):
        login().run(("sleep",), b"", deadline=0.2)


def test_a_followed_command_that_falls_silent(login):
    with pytest.raises(TransportError, match=r"h: silent for 0\.2 s"):
        list(login().follow(("sleep",), b"", silence=0.2))


def test_a_connection_that_breaks_in_the_middle(login):
    ssh = login()
    with pytest.raises(TransportError, match="h: the connection broke"):
        ssh.run(("cut",), b"", deadline=10)
    assert ssh.run(("cat",), b"x", deadline=10).out == "x"
    assert ssh.cost.sessions == 2


def test_a_followed_connection_that_breaks_gives_whole_lines_first(login):
    lines = login().follow(("cut",), b"", silence=10)
    assert next(lines) == "one"
    with pytest.raises(TransportError, match="h: the connection broke"):
        next(lines)


def test_a_followed_command_that_fails_says_why(login):
    lines = login().follow(("fail",), b"", silence=10)
    assert next(lines) == "one"
    with pytest.raises(TransportError, match="no such thing"):
        next(lines)


def test_a_host_behind_another_is_refused_before_anything_is_sent(login, server):
    with pytest.raises(UsageError, match="ProxyJump gate is not supported"):
        login(proxy_jump="gate").run(("cat",), b"", deadline=10)
    assert server.logins == []


# --- recorded ----------------------------------------------------------------------------------


def test_a_recorded_host_answers_in_order_and_counts():
    host = Recorded("h", [("one", "1"), ("two", ["2", "3"])])
    assert host.run((), b"... one ...", deadline=1).out == "1"
    assert list(host.follow((), b"two", silence=1)) == ["2", "3"]
    assert cost(host) == (1, 2)


def test_a_recorded_host_that_is_left_counts_another_session():
    host = Recorded("h", [("", "1"), ("", "2")])
    host.run((), b"", deadline=1)
    host.close()
    host.run((), b"", deadline=1)
    assert cost(host) == (2, 2)


def test_a_recorded_host_raises_what_is_scripted():
    host = Recorded("h", [("", TransportError("gone"))])
    with pytest.raises(TransportError, match="gone"):
        host.run((), b"", deadline=1)


@pytest.mark.parametrize(
    ("script", "message"),
    [([], "nothing more was expected"), ([("two", "2")], "expected a request with 'two'")],
)
def test_a_recorded_host_refuses_what_is_not_scripted(script, message):
    with pytest.raises(AssertionError, match=message):
        Recorded("h", script).run((), b"one", deadline=1)
