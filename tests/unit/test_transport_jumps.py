"""Hosts behind others: through a jump host, and through a proxy command."""

import dataclasses
import socket
import time
from pathlib import Path

import pytest

from conftest import known_line
from provision.errors import TransportError
from provision.transport import proxy
from provision.transport import ssh as ssh_module
from provision.transport.address import Address

# --- through another host ----------------------------------------------------------------------


def refused(ssh):
    with pytest.raises(TransportError) as caught:
        ssh.run(("cat",), b"", deadline=10)
    return caught.value


@pytest.fixture
def behind(gate, login, keys, tmp_path):
    """Makes a login to the server through another one."""

    def make(*, known="gate", offer="user", **fields):
        file = tmp_path / "known_gates"
        if known:
            file.write_text(known_line(f"[127.0.0.1]:{gate.port}", keys[known][1]))
        jump = Address(
            hostname="127.0.0.1",
            port=gate.port,
            user="ops",
            identities=(str(keys[offer][0]),),
            known_hosts=(file,),
        )
        return login(jump=dataclasses.replace(jump, **fields))

    return make


def test_a_host_behind_another_is_one_session(behind, server, gate):
    ssh = behind()
    assert ssh.run(("cat",), b"x", deadline=10).out == "x"
    assert list(gate.forwarded.values()) == [("127.0.0.1", server.port)]
    assert (server.commands, gate.commands) == (["cat"], [])
    assert (ssh.cost.sessions, ssh.cost.execs) == (1, 1)


def test_the_host_in_between_is_believed_no_more_than_any_other(behind, server):
    assert "the host key of 127.0.0.1 is not known" in refused(behind(known=None)).what
    assert "has CHANGED" in refused(behind(known="other")).what
    assert server.logins == []


def test_the_host_in_between_refuses_us(behind):
    error = refused(behind(offer="other"))
    assert error.what == "h: ops@127.0.0.1 refuses us"
    assert "other" in error.hint


def test_the_host_in_between_can_t_be_reached(behind):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert str(port) in refused(behind(port=port)).what


def test_leaving_a_host_leaves_the_host_in_between_too(behind):
    ssh = behind()
    ssh.run(("cat",), b"", deadline=10)
    between = ssh._connection.gateway
    ssh.close()
    assert not between.is_connected


def test_a_login_that_fails_leaves_the_host_in_between(behind, gate, server):
    server.user_key = None
    refused(behind())
    gate.logins[0].join(10)
    assert not gate.logins[0].is_alive()


def test_leaving_a_host_whose_way_is_gone(login, monkeypatch):
    """paramiko says goodbye through the host in between, which may have hung up."""
    ssh = login()
    with monkeypatch.context() as patch:
        patch.setattr(ssh.client.get_transport().packetizer, "close", gone)
        ssh.close()


def gone():
    raise EOFError


# --- a proxy command ---------------------------------------------------------------------------

PIPE = """\
import socket, sys, threading
there = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def back():
    while chunk := there.recv(65536):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
threading.Thread(target=back, daemon=True).start()
while chunk := sys.stdin.buffer.raw.read(65536):
    there.sendall(chunk)
"""


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("nc %h %p", "nc gpu01.example 2200"),
        ("ssh -l %r %n", "ssh -l ops gpu"),
        ("ncat --proxy ~/%%h%% %x %", "ncat --proxy ~/%h% %x %"),
    ],
)
def test_a_proxy_command_is_told_where_to_go(command, expected):
    address = Address(hostname="gpu01.example", port=2200, user="ops", name="gpu")
    assert proxy.expand(command, address) == expected


def test_a_host_behind_a_proxy_command(login, server, tmp_path):
    Path(tmp_path / "pipe.py").write_text(PIPE)
    command = f"python3 {tmp_path}/pipe.py %h %p"
    ssh = login(proxy_command=command)
    assert ssh.run(("cat",), b"x", deadline=10).out == "x"
    ssh.close()
    assert ssh.run(("cat",), b"y", deadline=10).out == "y"


def test_a_proxy_command_that_fails(login, waits):
    start = time.monotonic()
    assert "can't be reached" in refused(login(proxy_command="false")).what
    assert time.monotonic() - start < ssh_module.CONNECT_TIMEOUT


def test_a_proxy_command_without_a_shell(login, monkeypatch):
    monkeypatch.setenv("SHELL", "/no/such/shell")
    assert refused(login(proxy_command="cat")).what.endswith("No such file or directory")
