"""SSH: one login to a host, opened at the first command and kept.

Fabric opens the connection; every command gets a channel of its transport, since Invoke would feed
input a byte per 10 ms.
"""

from __future__ import annotations

import logging
import random
import shlex
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import Any

import fabric
import paramiko

from provision.errors import AccessError, ProvisionError, TransportError
from provision.inventory import Host
from provision.transport import LIMIT, Cost, Result, endless, lines, proxy, sudo, text
from provision.transport.address import Address
from provision.transport.keys import Keys
from provision.transport.trust import Judge, Trust

CONNECT_TIMEOUT = 15.0
"""Seconds for TCP, banner and authentication, each."""
CHUNK = 1 << 16
"""Bytes at a time: with each packet that it sends, paramiko copies all that is left to be sent."""
BROKEN = -1
"""paramiko's exit status of a command whose connection broke before it gave one."""
HANDSHAKES = 8
"""At a time to one target or bastion: sshd's MaxStartups drops at random from 10 on."""
ATTEMPTS = 3
"""At a handshake that the server breaks off before it has said who it is."""
READY = b"ready\n"
WHEN_READY = 'echo ready; exec "$0" "$@"'
"""Shell words that become a command, once sudo has let them run."""

logging.getLogger("paramiko").addHandler(logging.NullHandler())
"""Without a handler Python prints what paramiko logs: a traceback of each error that it raises."""

_gates: dict[tuple[str, int], threading.BoundedSemaphore] = defaultdict(
    lambda: threading.BoundedSemaphore(HANDSHAKES)
)


class Ssh:
    """A transport over SSH."""

    def __init__(self, host: Host, address: Address, trust: Trust) -> None:
        self.host = host.name
        self.cost = Cost()
        self.address = address
        self._where = host.where
        self._config = ["-F", str(host.ssh_config)] if host.ssh_config else []
        self._trust = trust
        self._connection: fabric.Connection | None = None
        self._begun: Future[fabric.Connection] | None = None
        self._chain = ExitStack()
        """Leaves the host, then those in between."""
        self._password: str | None = None
        self._terminal = False

    def begin(self) -> None:
        """See Transport. What goes wrong is told to the first command."""
        begun = self._begun = Future()

        def login() -> None:
            try:
                begun.set_result(self._connect())
            except BaseException as error:  # noqa: BLE001 - for whoever waits for the login
                begun.set_exception(error)

        threading.Thread(target=login, daemon=True).start()

    @property
    def client(self) -> paramiko.SSHClient:
        """The live client, for others who ride on this login."""
        client: paramiko.SSHClient = self._open().client
        return client

    def run(
        self, argv: Sequence[str], stdin: bytes, *, deadline: float, root: bool = False
    ) -> Result:
        """See Transport."""
        result = self._run(argv, stdin, deadline, root=root)
        if root and result.exit and not result.out.startswith("{") and self._learn(result):
            return self.run(argv, stdin, deadline=deadline, root=root)
        return result

    def follow(self, argv: Sequence[str], stdin: bytes, *, silence: float) -> Iterator[str]:
        """See Transport."""
        channel = self._exec(argv, stdin, root=True)
        channel.settimeout(silence)
        try:
            yield from lines(self.host, iter(lambda: channel.recv(CHUNK), b""))
            self._ended(channel, silence)
        except TimeoutError as error:
            raise TransportError(f"{self.host}: silent for {silence:g} s") from error
        finally:
            _leave(channel.close)

    def close(self) -> None:
        """See Transport."""
        self._connection = None
        self._chain.close()

    def _ended(self, channel: paramiko.Channel, patience: float) -> None:
        """A followed command has ended; not so a connection that broke under it."""
        if not channel.status_event.wait(patience):
            raise TimeoutError
        code = channel.recv_exit_status()
        if code == BROKEN:
            self.close()
            raise TransportError(f"{self.host}: the connection broke")
        if code:
            err = text(channel.recv_stderr(CHUNK)).strip().splitlines()
            raise ProvisionError(f"{self.host}: following failed: {err[-1] if err else code}")

    def _run(self, argv: Sequence[str], stdin: bytes, deadline: float, *, root: bool) -> Result:
        end = time.monotonic() + deadline
        channel = self._exec(argv, stdin, root=root)
        try:
            out = self._drain(channel, channel.recv, end)
            err = self._drain(channel, channel.recv_stderr, end)
            if not channel.status_event.wait(max(0.01, end - time.monotonic())):
                raise TimeoutError
            code = channel.recv_exit_status()
        except TimeoutError as error:
            raise TransportError(f"{self.host}: no answer within {deadline:g} s") from error
        finally:
            _leave(channel.close)
        if code == BROKEN:
            self.close()
            raise TransportError(f"{self.host}: the connection broke")
        return Result(exit=code, out=text(out), err=text(err))

    def _drain(
        self, channel: paramiko.Channel, receive: Callable[[int], bytes], end: float
    ) -> bytes:
        """Everything until the stream's end. Raises TimeoutError at `end` (monotonic seconds)."""
        data = bytearray()
        while (left := end - time.monotonic()) > 0:
            channel.settimeout(left)
            if not (chunk := receive(CHUNK)):
                return bytes(data)
            data += chunk
            if len(data) > LIMIT:
                raise endless(self.host)
        raise TimeoutError

    def _learn(self, result: Result) -> bool:
        """What sudo wants of us; True when another attempt can succeed."""
        said = result.err + result.out
        if sudo.wants_terminal(said) and not self._terminal:
            self._terminal = True
            return True
        if sudo.wants_password(said) and self._password is None:
            self._password = sudo.password(self.host)
            return True
        return False

    def _exec(self, argv: Sequence[str], stdin: bytes, *, root: bool) -> paramiko.Channel:
        transport = self._open().transport
        words, terminal = list(argv), False
        if root and self.address.user != "root":
            terminal = self._terminal
            ask, words = ["-n"], [*argv]
            if self._password is not None:
                ask, words = ["-S", "-p", ""], ["/bin/sh", "-c", WHEN_READY, *argv]
            words = ["/usr/bin/env", "LC_ALL=C", "/usr/bin/sudo", *ask, "--", *words]
        try:
            channel: paramiko.Channel = transport.open_session(timeout=CONNECT_TIMEOUT)
            channel.settimeout(CONNECT_TIMEOUT)
            command = shlex.join(words)
            if terminal:
                channel.get_pty()
                command = f"stty raw -echo; printf 'ready\\n'; exec {command}"
            channel.exec_command(command)
            self.cost.execs += 1
            if terminal:
                _await(channel, READY)
            if root and self._password is not None:
                channel.sendall(f"{self._password}\n".encode())
                self._await_sudo(channel)
            _feed(channel, stdin)
        except ProvisionError:
            raise
        except Exception as error:  # of paramiko's thread, too: see _login
            self.close()
            raise TransportError(f"{self.host}: the connection broke: {_said(error)}") from error
        return channel

    def _await_sudo(self, channel: paramiko.Channel) -> None:
        """Wait until sudo has let us in; whatever we send before, it would take for a password.

        A wrong password costs one attempt: sudo finds its input ended instead of another one.
        """
        out, err = bytearray(), bytearray()
        end = time.monotonic() + CONNECT_TIMEOUT
        while not out.endswith(READY):
            if time.monotonic() > end:
                raise TimeoutError
            if channel.recv_stderr_ready():  # a lecture, or a refusal
                err += channel.recv_stderr(CHUNK)
            if sudo.refuses_password(text(out + err)):
                channel.close()
                raise sudo.refused(self.host, self.address.user)
            if channel.recv_ready():
                out += channel.recv(1)
            elif channel.exit_status_ready() and not channel.recv_stderr_ready():
                raise EOFError
            else:
                time.sleep(0.005)

    def _open(self) -> fabric.Connection:
        if self._connection is None:
            begun, self._begun = self._begun, None
            self._connection = begun.result() if begun else self._connect()
            self.cost.sessions += 1
        return self._connection

    def _connect(self) -> fabric.Connection:
        first = address = self.address
        while first.jump:
            first = first.jump
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with _gates[first.hostname, first.port], ExitStack() as chain:
                    connection = self._login(self.address, self._trust, chain)
                    self._chain = chain.pop_all()
                    return connection
            except (paramiko.SSHException, EOFError, ConnectionResetError) as error:
                if attempt == ATTEMPTS:
                    raise self._unreachable(
                        address,
                        f"{_said(error)} ({ATTEMPTS} attempts; the server may have too many "
                        "logins at a time: MaxStartups, PerSourcePenalties)",
                    ) from error
                time.sleep(random.uniform(0.5, 1.5) * attempt)  # noqa: S311
        raise AssertionError("the last attempt raises")

    def _login(self, address: Address, trust: Trust, chain: ExitStack) -> fabric.Connection:
        gateway = None
        if address.jump:
            gateway = self._login(address.jump, Trust(accept_new=trust.accept_new), chain)
        keys, judge = Keys(address), Judge(address, self.host, trust)

        def begin(sock: socket.socket, **options: Any) -> paramiko.Transport:  # noqa: ANN401
            with suppress(OSError, AttributeError):  # neither a channel nor a pipe has it
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            transport = paramiko.Transport(sock, **options)
            judge.prefer(transport)
            return transport

        connection = fabric.Connection(
            address.hostname,
            user=address.user,
            port=address.port,
            config=fabric.Config(lazy=True, overrides={"load_ssh_configs": False}),
            gateway=gateway,
            connect_timeout=int(CONNECT_TIMEOUT),
            connect_kwargs={
                "auth_strategy": keys,
                "banner_timeout": CONNECT_TIMEOUT,
                "auth_timeout": CONNECT_TIMEOUT,
                "transport_factory": begin,
            },
        )
        connection.client.set_missing_host_key_policy(judge)
        chain.callback(_leave, connection.client.close)
        try:
            if address.proxy_command:
                command = proxy.expand(address.proxy_command, address)
                connection.connect_kwargs["sock"] = proxy.start(command, chain)
            connection.open()
        except socket.gaierror as error:
            reason = f"the name {address.hostname} can't be resolved"
            raise self._unreachable(address, reason) from error
        except paramiko.AuthenticationException as error:
            raise AccessError(
                f"{self.host}: {address.user}@{address.hostname} refuses us",
                hint=f"tried {', '.join(keys.tried) or 'no key: there is none'}; "
                f"see what ssh says: {self._ssh(address)}",
            ) from error
        except paramiko.ssh_exception.IncompatiblePeer as error:
            raise self._unreachable(address, f"no common algorithm: {_said(error)}") from error
        except (ProvisionError, paramiko.SSHException, EOFError, ConnectionResetError):
            raise
        except OSError as error:
            raise self._unreachable(address, _said(error)) from error
        except Exception as error:  # paramiko hands on what it stumbles over, whatever that is
            reason = f"it speaks no SSH that can be understood: {_said(error)}"
            raise self._unreachable(address, reason) from error
        connection.transport.set_keepalive(address.keepalive)
        return connection

    def _ssh(self, address: Address) -> str:
        """The same login by hand."""
        port = ["-p", str(address.port)] if address.port != 22 else []
        where = f"{address.user}@{address.name or address.hostname}"
        return shlex.join(["ssh", "-v", *self._config, *port, where])

    def _unreachable(self, address: Address, reason: str) -> TransportError:
        return TransportError(
            f"{self.host}: {address.hostname} port {address.port} can't be reached: {reason}",
            hint=f"the address stands in {self._where}; an alias of ~/.ssh/config works too",
        )


def _feed(channel: paramiko.Channel, stdin: bytes) -> None:
    """Give a command its input. One that ends before it has read that still says why."""
    try:
        for start in range(0, len(stdin), CHUNK):
            channel.sendall(stdin[start : start + CHUNK])
        channel.shutdown_write()
    except OSError:
        if not channel.closed:
            raise


def _leave(close: Callable[[], object]) -> None:
    """paramiko says goodbye, though the way may be gone."""
    with suppress(paramiko.SSHException, OSError, EOFError):
        close()


def _await(channel: paramiko.Channel, word: bytes) -> None:
    """Read up to a word. Raises EOFError when the output ends before, or goes on and on."""
    seen = b""
    while not seen.endswith(word):
        if len(seen) > CHUNK or not (byte := channel.recv(1)):
            raise EOFError
        seen += byte


def _said(error: BaseException) -> str:
    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
        error = next(iter(error.errors.values()))  # of all the name's addresses
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
