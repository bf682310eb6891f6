"""Commands over SSH: a real server on this computer, and what sudo, jumps and faults do to them."""

import socket
from types import SimpleNamespace

import pytest
from sshd import PASSWORD

from provision.errors import ProvisionError, TransportError
from provision.transport import ssh as ssh_module
from provision.transport import sudo


def cost(ssh):
    return (ssh.cost.sessions, ssh.cost.execs)


def refused(ssh, *argv, stdin=b"", root=False, deadline=10, kind=TransportError):
    with pytest.raises(kind) as caught:
        ssh.run(argv or ("cat",), stdin, deadline=deadline, root=root)
    return caught.value


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


def test_output_that_is_no_text_is_kept_readable(login):
    assert login().run(("cat",), b"a\xffb", deadline=10).out == "a\N{REPLACEMENT CHARACTER}b"


def test_a_login_is_kept_alive_as_often_as_the_address_says(login):
    transport = login(keepalive=7).client.get_transport()
    assert transport.packetizer._Packetizer__keepalive_interval == 7


# --- faults ------------------------------------------------------------------------------------


def test_a_port_where_nobody_listens(login):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    error = refused(login(port=port))
    assert error.what.startswith(f"h: 127.0.0.1 port {port} can't be reached: Connection refused")
    assert "inventory.yaml:3" in error.hint


def test_a_name_that_can_t_be_resolved(login, monkeypatch):
    def unknown(*_args, **_options):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    error = refused(login(hostname="gpu01.example"))
    assert "the name gpu01.example can't be resolved" in error.what


def test_a_command_that_never_answers(login):
    assert refused(login(), "sleep", deadline=0.2).what == "h: no answer within 0.2 s"


def test_a_followed_command_that_falls_silent(login):
    with pytest.raises(TransportError, match=r"h: silent for 0\.2 s"):
        list(login().follow(("sleep",), b"", silence=0.2))


def test_a_connection_that_breaks_in_the_middle(login):
    ssh = login()
    assert refused(ssh, "cut").what == "h: the connection broke"
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
    with pytest.raises(ProvisionError, match="no such thing") as caught:
        next(lines)
    assert not isinstance(caught.value, TransportError)


MORE_THAN_A_WINDOW = bytes(1 << 23)


def test_a_command_that_ends_before_it_has_read_its_input_says_why(login):
    done = login().run(("quit",), MORE_THAN_A_WINDOW, deadline=10)
    assert (done.exit, done.err) == (5, "enough\n")


def test_sudo_s_refusal_is_learnt_though_it_leaves_the_input_unread(login, server, password):
    server.wants_password = True
    password(PASSWORD)
    done = login(user="ops").run(("quit",), MORE_THAN_A_WINDOW, deadline=10, root=True)
    assert (done.exit, len(server.commands)) == (5, 2)


def test_a_connection_that_breaks_while_the_input_is_sent(login):
    ssh = login()
    assert refused(ssh, "hang", stdin=MORE_THAN_A_WINDOW).what.startswith("h: the connection broke")
    assert ssh.run(("cat",), b"x", deadline=10).out == "x"
    assert ssh.cost.sessions == 2


def test_a_large_input_is_sent_piece_by_piece():
    """At each packet paramiko copies all that it was given to send: for a gigabyte, hours long."""
    pieces = []
    channel = SimpleNamespace(sendall=pieces.append, shutdown_write=lambda: pieces.append(None))
    large = bytes(range(256)) * 4096
    ssh_module._feed(channel, large)
    assert pieces.pop() is None
    assert b"".join(pieces) == large
    assert max(map(len, pieces)) == ssh_module.CHUNK


def test_small_packets_are_not_held_back(login, monkeypatch):
    monkeypatch.delattr(socket.socket, "connect")  # the tests' own remedy
    sock = login().client.get_transport().sock
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_server_that_hangs_up_at_first_is_tried_again(login, server, waits):
    server.hang_ups = ssh_module.ATTEMPTS - 1
    ssh = login()
    assert ssh.run(("cat",), b"x", deadline=10).out == "x"
    assert len(waits) == ssh_module.ATTEMPTS - 1
    assert all(wait > 0 for wait in waits)
    assert cost(ssh) == (1, 1)


def test_a_server_that_always_hangs_up_is_given_up(login, server, waits):
    server.hang_ups = 100
    error = refused(login())
    assert f"({ssh_module.ATTEMPTS} attempts; the server may have too many logins" in error.what
    assert "MaxStartups" in error.what
    assert 100 - server.hang_ups == ssh_module.ATTEMPTS


def test_a_host_that_refuses_our_keys_is_not_tried_again(login, server, waits):
    refused(login(offer="other"))
    assert (len(server.logins), waits) == (1, [])


# --- sudo --------------------------------------------------------------------------------------


@pytest.fixture
def password(monkeypatch):
    """Puts the password where nobody sits; counts how often it is looked up."""

    def give(text):
        monkeypatch.setenv(sudo.VARIABLE, text)

    return give


NO_PASSWORD = "/usr/bin/env LC_ALL=C /usr/bin/sudo -n -- cat"
RAW = "stty raw -echo; printf 'ready\\n'; exec "
WHEN_READY = """/bin/sh -c 'echo ready; exec "$0" "$@"' cat"""
WITH_PASSWORD = f"/usr/bin/env LC_ALL=C /usr/bin/sudo -S -p '' -- {WHEN_READY}"


def run_as_root(ssh):
    return ssh.run(("cat",), b"frames", deadline=10, root=True)


def test_root_needs_no_sudo(login, server):
    assert run_as_root(login()).out == "frames"
    assert server.commands == ["cat"]


def test_another_user_s_command_as_root_asks_sudo_without_a_password(login, server):
    assert run_as_root(login(user="ops")).out == "frames"
    assert server.commands == [NO_PASSWORD]


def test_another_user_s_own_command_needs_no_sudo(login, server):
    login(user="ops").run(("cat",), b"", deadline=10)
    assert server.commands == ["cat"]


def test_a_password_goes_before_the_input_and_is_asked_for_once(login, server, password):
    server.wants_password = True
    password(PASSWORD)
    ssh = login(user="ops")
    assert run_as_root(ssh).out == "frames"
    assert run_as_root(ssh).out == "frames"
    assert list(ssh.follow(("cat",), b"one\n", silence=10)) == ["one"]
    assert server.commands == [NO_PASSWORD, *[WITH_PASSWORD] * 3]
    assert server.inputs == [b"frames", b"frames", b"one\n"]
    assert cost(ssh) == (1, 4)


def test_hosts_share_the_password(login, server, password, monkeypatch):
    server.wants_password = True
    password(PASSWORD)
    run_as_root(login(user="ops"))
    monkeypatch.delenv(sudo.VARIABLE)
    assert run_as_root(login(user="ops")).out == "frames"


def test_a_password_that_sudo_does_not_ask_for_any_more_stands_before_the_input(
    login, server, password
):
    server.wants_password = True
    password(PASSWORD)
    ssh = login(user="ops")
    run_as_root(ssh)
    server.wants_password = False
    assert run_as_root(ssh).out == f"{PASSWORD}\nframes"


def test_a_wrong_password_is_refused_and_not_tried_again(login, server, password):
    server.wants_password = True
    password("guess")
    error = refused(login(user="ops"), root=True)
    assert error.what == "h: sudo refuses the password of ops"
    assert "sudo -k" in error.hint
    assert server.commands == [NO_PASSWORD, WITH_PASSWORD]


def test_a_password_that_nobody_can_give(login, server, monkeypatch):
    monkeypatch.setattr(sudo.sys, "stdin", SimpleNamespace(isatty=lambda: False))
    server.wants_password = True
    error = refused(login(user="ops"), root=True)
    assert error.what == "h: sudo asks for a password, and nobody is here to give it"
    assert sudo.VARIABLE in error.hint


def test_a_password_is_typed_once_at_a_terminal(login, server, monkeypatch):
    asked = []
    monkeypatch.setattr(sudo.sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(sudo.getpass, "getpass", lambda prompt: asked.append(prompt) or PASSWORD)
    server.wants_password = True
    for _ in range(2):
        assert run_as_root(login(user="ops")).out == "frames"
    assert asked == ["sudo password (for all hosts of this run): "]


def test_a_host_that_wants_a_terminal_gets_one_that_leaves_the_input_alone(login, server):
    server.wants_terminal = True
    ssh = login(user="ops")
    assert run_as_root(ssh).out == "frames"
    assert server.commands == [NO_PASSWORD, f"{RAW}{NO_PASSWORD}"]
    assert list(ssh.follow(("cat",), b"one\n", silence=10)) == ["one"]
    assert len(server.terminals) == 2


def test_a_host_that_wants_a_terminal_and_a_password(login, server, password):
    server.wants_terminal = server.wants_password = True
    password(PASSWORD)
    assert run_as_root(login(user="ops")).out == "frames"
    assert server.commands[-1].endswith(f"exec {WITH_PASSWORD}")
    assert server.inputs == [b"frames"]


def test_the_password_is_never_among_a_command_s_words(login, server, password):
    server.wants_terminal = server.wants_password = True
    password(PASSWORD)
    run_as_root(login(user="ops"))
    assert [command for command in server.commands if PASSWORD in command] == []


def test_what_a_command_itself_says_of_passwords_is_its_own(login, server, password):
    server.wants_password = True
    password(PASSWORD)
    ssh = login(user="ops")
    run_as_root(ssh)
    said = ssh.run(("cat",), b"fail: a password is required", deadline=10, root=True)
    assert said.exit == 7
