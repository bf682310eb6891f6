"""Servers that speak badly, and commands that never end: one error each, and no memory filled."""

import contextlib
import socket
import struct
import subprocess
import sys
import threading

import pytest
from sshd import Server, read_all

from provision import transport
from provision.errors import ProvisionError, TransportError, UsageError
from provision.transport import ssh as ssh_module
from provision.transport.address import resolve
from provision.transport.local import Local

SMALL = 1 << 18
"""Bytes instead of the real limit, so that it is soon reached."""


def packet(payload, padding=None):
    """RFC 4253's section 6: length, length of the padding, payload, padding to a multiple of 8."""
    fill = 11 - (len(payload) + 8) % 8
    return struct.pack(">IB", len(payload) + fill + 1, padding or fill) + payload + bytes(fill)


BANNER = b"SSH-2.0-x\r\n"
OFFER = b"\x14" + bytes(16) + (struct.pack(">I", 2) + b"\xff\xfe") * 10 + bytes(5)
SAID = {
    "padding longer than its packet": BANNER + packet(b"x", padding=255),
    "a packet without a kind": BANNER + packet(b""),
    "an offer that is no text": BANNER + packet(OFFER),
    "a goodbye that is no text": BANNER + packet(b"\x01" + struct.pack(">II", 2, 1) + b"\xff"),
}


@pytest.fixture
def says():
    """Starts a server that says these bytes to whoever comes; its port."""
    listeners = []

    def serve(listener, data):
        with contextlib.suppress(OSError):
            client, _ = listener.accept()
            client.sendall(data)
            while client.recv(1 << 16):
                pass

    def start(data):
        listeners.append(socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=serve, args=(listeners[-1], data), daemon=True).start()
        return listeners[-1].getsockname()[1]

    yield start
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize("case", SAID, ids=SAID)
def test_a_server_that_paramiko_stumbles_over(login, says, case):
    with pytest.raises(TransportError, match="it speaks no SSH that can be understood: "):
        login(port=says(SAID[case])).run(("cat",), b"", deadline=10)


LOGIN = """
from provision import inventory
from provision.errors import TransportError
from provision.transport.address import Address
from provision.transport.ssh import Ssh
from provision.transport.trust import Trust
host = inventory.Host(name="h", where="inventory.yaml:3", address="127.0.0.1", stack="lab")
address = Address(hostname="127.0.0.1", port=%d, user="root")
try:
    Ssh(host, address, Trust()).run((), b"", deadline=10)
except TransportError as error:
    print(error.what)
"""


def test_what_paramiko_logs_of_an_error_is_not_printed_beside_it(says):
    port = says(SAID["a packet without a kind"])
    done = subprocess.run(
        [sys.executable, "-c", LOGIN % port], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"h: 127.0.0.1 port {port} can't be reached: it speaks no SSH")
    assert done.stderr == ""


# --- answers without an end --------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch):
    for module in (transport, ssh_module):
        monkeypatch.setattr(module, "LIMIT", SMALL)


@pytest.fixture
def pours(monkeypatch):
    """Adds commands to the server that never stop to talk."""

    def pour(self, channel, _command):
        read_all(channel)
        while not self.stopped.is_set():
            channel.sendall(b"x" * 1000)

    def drip(self, channel, _command):
        read_all(channel)
        while not self.stopped.wait(0.002):
            channel.sendall(b"x")

    monkeypatch.setattr(Server, "do_pour", pour, raising=False)
    monkeypatch.setattr(Server, "do_drip", drip, raising=False)


ENDLESS = "h: answers with more than 0 MiB"


def test_an_answer_without_an_end(login, pours, small):
    with pytest.raises(ProvisionError, match=ENDLESS):
        login().run(("pour",), b"", deadline=60)


def test_a_line_without_an_end_is_no_broken_connection(login, pours, small):
    with pytest.raises(ProvisionError, match=ENDLESS) as caught:
        list(login().follow(("pour",), b"", silence=60))
    assert not isinstance(caught.value, TransportError)


def test_an_answer_that_drips_does_not_outlast_its_deadline(login, pours):
    with pytest.raises(TransportError, match=r"h: no answer within 0\.3 s"):
        login().run(("drip",), b"", deadline=0.3)


def test_a_line_of_this_computer_without_an_end(monkeypatch, small):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(ProvisionError, match=ENDLESS):
        list(Local("h").follow(("cat", "/dev/zero"), b"", silence=60))


def test_whole_lines_are_told_before_one_without_an_end(small):
    told = transport.lines("h", [b"one\ntw", b"o\n", b"x" * SMALL, b"x"])
    assert [next(told), next(told)] == ["one", "two"]
    with pytest.raises(ProvisionError, match=ENDLESS):
        next(told)


# --- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpu01:22", "root@gpu01", "a..b", "x" * 64, "a:b"])
def test_a_host_name_that_can_be_none_is_refused_with_its_place(fake_ssh, entry, name):
    fake_ssh(f'printf "hostname {name}\\nport 22\\nuser root\\n"')
    with pytest.raises(UsageError, match=r"^inventory\.yaml:3: ssh -G gpu01: .*is no name and no"):
        resolve(entry(address="gpu01"))


@pytest.mark.parametrize(
    "said",
    [
        "",
        "hostname h\\nport 22\\n",
        "hostname h\\nport ssh\\nuser root\\n",
        'hostname h\\nport 22\\nuser root\\nuserknownhostsfile \\"/a b\\n',
        "hostname h\\nport 22\\nuser root\\nserveraliveinterval soon\\n",
    ],
)
def test_an_ssh_that_says_something_else_is_refused(fake_ssh, entry, said):
    fake_ssh(f'printf "{said}"')
    with pytest.raises(UsageError, match=r"^inventory\.yaml:3: ssh -G gpu01: can't be understood"):
        resolve(entry(address="gpu01"))


def test_an_ssh_that_says_what_is_no_text(fake_ssh, entry):
    fake_ssh('printf "hostname h\\nport 22\\nuser root\\nhostkeyalias \\377\\n"')
    assert resolve(entry(address="gpu01")).host_key_alias == "\udcff"


def test_ssh_s_complaint_is_one_line(fake_ssh, entry):
    fake_ssh('printf "c: line 1: Bad option\\nc: terminating\\n" >&2; exit 255')
    with pytest.raises(UsageError) as caught:
        resolve(entry(address="gpu01"))
    assert (
        caught.value.what == "inventory.yaml:3: ssh -G gpu01: c: line 1: Bad option; c: terminating"
    )
