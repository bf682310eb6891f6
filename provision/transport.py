"""The only room that touches a network: runs commands on hosts, and counts what it cost."""

from __future__ import annotations

import base64
import hashlib
import shlex
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from provision.errors import TransportError, UsageError
from provision.inventory import Host

if TYPE_CHECKING:
    import fabric
    import paramiko

CONNECT_TIMEOUT = 15.0
"""Seconds for TCP, banner and authentication, each."""
KEEPALIVE = 15
"""Seconds: shorter than the idle limits of NAT gateways."""
CHUNK = 1 << 16
BROKEN = -1
"""paramiko's exit status of a command whose connection broke before it gave one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a command said."""

    exit: int
    out: str
    err: str


@dataclass(kw_only=True)
class Cost:
    """What a host was charged: SSH sessions (logins) and commands."""

    sessions: int = 0
    execs: int = 0


class Transport(Protocol):
    """A way to run commands on one host."""

    host: str
    cost: Cost

    def run(self, argv: Sequence[str], stdin: bytes, *, deadline: float) -> Result:
        """Run a command as root; give up after `deadline` seconds. Raises TransportError."""

    def follow(self, argv: Sequence[str], stdin: bytes, *, silence: float) -> Iterator[str]:
        """Its lines as they come. Raises TransportError after `silence` seconds without one."""

    def close(self) -> None:
        """Leave the host; the next command connects again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Where and as whom to log in: OpenSSH's own reading of its configuration."""

    hostname: str
    port: int
    user: str
    identities: tuple[str, ...]
    known_hosts: tuple[Path, ...]
    agent: bool
    proxy_jump: str | None


def resolve(host: Host) -> Address:
    """Ask `ssh -G` for a host's address, so that aliases and options mean what users expect.

    Raises UsageError where there is no OpenSSH client or its configuration is wrong.
    """
    argv = ["ssh", "-G"]
    argv += ["-F", str(host.ssh_config)] if host.ssh_config else []
    argv += ["-p", str(host.port)] if host.port else []
    argv += ["-l", host.user] if host.user else []
    try:
        said = subprocess.run(
            [*argv, "--", host.address], capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise UsageError(
            "there is no `ssh` on this computer", hint="apt-get install openssh-client"
        ) from error
    if said.returncode:
        raise UsageError(f"{host.where}: ssh -G {host.address}: {said.stderr.strip()}")
    return parse_config(said.stdout)


def parse_config(text: str) -> Address:
    """Read what `ssh -G` prints."""
    options: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        options.setdefault(key, []).append(value)
    known = " ".join(
        options.get("userknownhostsfile", []) + options.get("globalknownhostsfile", [])
    )
    jump = options.get("proxyjump", ["none"])[0]
    return Address(
        hostname=options["hostname"][0],
        port=int(options["port"][0]),
        user=options["user"][0],
        identities=tuple(
            path for i in options.get("identityfile", []) if Path(path := _home(i)).is_file()
        ),
        known_hosts=tuple(Path(_home(file)) for file in shlex.split(known)),
        agent=options.get("identitiesonly", ["no"])[0] != "yes",
        proxy_jump=None if jump == "none" else jump,
    )


def _home(path: str) -> str:
    return str(Path(path).expanduser())


class Ssh:
    """One login to a host, opened at the first command and kept."""

    def __init__(self, host: Host, address: Address) -> None:
        self.host = host.name
        self.cost = Cost()
        self.address = address
        self._where = host.where
        self._connection: fabric.Connection | None = None

    @property
    def client(self) -> paramiko.SSHClient:
        """The live client, for others who ride on this login."""
        client: paramiko.SSHClient = self._open().client
        return client

    def run(self, argv: Sequence[str], stdin: bytes, *, deadline: float) -> Result:
        end = time.monotonic() + deadline
        channel = self._exec(argv, stdin)
        try:
            out = _drain(channel, channel.recv, end)
            err = _drain(channel, channel.recv_stderr, end)
            if not channel.status_event.wait(max(0.01, end - time.monotonic())):
                raise TimeoutError
            code = channel.recv_exit_status()
        except TimeoutError as error:
            raise TransportError(f"{self.host}: no answer within {deadline:g} s") from error
        finally:
            channel.close()
        if code == BROKEN:
            self.close()
            raise TransportError(f"{self.host}: the connection broke")
        return Result(exit=code, out=_text(out), err=_text(err))

    def follow(self, argv: Sequence[str], stdin: bytes, *, silence: float) -> Iterator[str]:
        channel = self._exec(argv, stdin)
        channel.settimeout(silence)
        rest = b""
        try:
            while chunk := channel.recv(CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (_text(line) for line in lines)
            # A remote that ends gives its status; a connection that breaks does not.
            if channel.recv_exit_status() != 0:
                err = _text(channel.recv_stderr(CHUNK)).strip()
                raise TransportError(
                    f"{self.host}: the connection broke{f': {err}' if err else ''}"
                )
        except TimeoutError as error:
            raise TransportError(f"{self.host}: silent for {silence:g} s") from error
        finally:
            channel.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exec(self, argv: Sequence[str], stdin: bytes) -> paramiko.Channel:
        import paramiko

        words = list(argv) if self.address.user == "root" else ["sudo", "-n", "--", *argv]
        transport = self._open().transport
        try:
            channel: paramiko.Channel = transport.open_session(timeout=CONNECT_TIMEOUT)
            channel.exec_command(shlex.join(words))
            self.cost.execs += 1
            channel.settimeout(CONNECT_TIMEOUT)
            channel.sendall(stdin)
            channel.shutdown_write()
        except (paramiko.SSHException, OSError, EOFError) as error:
            self.close()
            raise TransportError(f"{self.host}: the connection broke: {_said(error)}") from error
        return channel

    def _open(self) -> fabric.Connection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> fabric.Connection:
        import fabric
        import paramiko

        address = self.address
        connection = fabric.Connection(
            address.hostname,
            user=address.user,
            port=address.port,
            config=fabric.Config(lazy=True, overrides={"load_ssh_configs": False}),
            gateway=self._gateway(),
            connect_timeout=int(CONNECT_TIMEOUT),
            connect_kwargs={
                "key_filename": list(address.identities),
                "allow_agent": address.agent,
                "look_for_keys": False,
                "banner_timeout": CONNECT_TIMEOUT,
                "auth_timeout": CONNECT_TIMEOUT,
            },
        )
        _trust(connection.client, address, self.host)
        try:
            connection.open()
        except socket.gaierror as error:
            raise self._unreachable(f"the name {address.hostname} can't be resolved") from error
        except paramiko.BadHostKeyException as error:
            raise TransportError(
                f"{self.host}: the host key of {address.hostname} has CHANGED: "
                f"it offers {fingerprint(error.key)}, known is {fingerprint(error.expected_key)}",
                hint=f"if the host was made anew: ssh-keygen -R '{_entry(address)}'",
            ) from error
        except paramiko.AuthenticationException as error:
            keys = ", ".join(address.identities) or "no key file"
            raise TransportError(
                f"{self.host}: {address.user}@{address.hostname} refuses us ({_said(error)})",
                hint=f"tried {keys}{' and the agent' if address.agent else ''}; "
                f"try: ssh {address.user}@{address.hostname}",
            ) from error
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise self._unreachable(_said(error)) from error
        connection.transport.set_keepalive(KEEPALIVE)
        self.cost.sessions += 1
        return connection

    def _gateway(self) -> fabric.Connection | None:
        if self.address.proxy_jump is None:
            return None
        raise UsageError(
            f"{self.host}: ProxyJump {self.address.proxy_jump} is not supported yet",
            hint="name a host that can be reached directly",
        )

    def _unreachable(self, reason: str) -> TransportError:
        address = self.address
        return TransportError(
            f"{self.host}: {address.hostname} port {address.port} can't be reached: {reason}",
            hint=f"the address stands in {self._where}; an alias of ~/.ssh/config works too",
        )


def _trust(client: paramiko.SSHClient, address: Address, host: str) -> None:
    """Hold the host to its known keys. Fabric by itself accepts any, a changed one too."""
    import paramiko

    class Refuse(paramiko.MissingHostKeyPolicy):
        def missing_host_key(self, client: object, hostname: str, key: paramiko.PKey) -> None:  # noqa: ARG002
            raise TransportError(
                f"{host}: the host key of {hostname} is not known: {key.get_name()} "
                f"{fingerprint(key)}",
                hint=f"compare it with the host's own, then: "
                f"ssh-keyscan -p {address.port} {address.hostname} >> ~/.ssh/known_hosts",
            )

    for file in address.known_hosts:
        if file.is_file():
            client.load_host_keys(str(file))
    client.set_missing_host_key_policy(Refuse())


def fingerprint(key: paramiko.PKey) -> str:
    """As OpenSSH prints it."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).rstrip(b"=")
    return f"SHA256:{digest.decode()}"


def _drain(channel: paramiko.Channel, receive: Callable[[int], bytes], end: float) -> bytes:
    """Everything until the stream's end. Raises TimeoutError at `end` (monotonic seconds)."""
    data = bytearray()
    while True:
        channel.settimeout(max(0.01, end - time.monotonic()))
        if not (chunk := receive(CHUNK)):
            return bytes(data)
        data += chunk


def _entry(address: Address) -> str:
    if address.port == 22:
        return address.hostname
    return f"[{address.hostname}]:{address.port}"


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _text(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "replace")


@dataclass
class Recorded:
    """Answers from a script, in order; anything else is an error. For tests and replays."""

    host: str
    script: list[tuple[str, Any]]
    """What must be in the request's input, and the answer: one JSON, or a list of lines."""
    cost: Cost = field(default_factory=Cost)
    connected: bool = False

    def run(self, argv: Sequence[str], stdin: bytes, *, deadline: float) -> Result:  # noqa: ARG002
        return Result(exit=0, out=self._next(stdin), err="")

    def follow(self, argv: Sequence[str], stdin: bytes, *, silence: float) -> Iterator[str]:  # noqa: ARG002
        yield from self._next(stdin)

    def close(self) -> None:
        self.connected = False

    def _next(self, stdin: bytes) -> Any:  # noqa: ANN401 - as scripted
        self.cost.sessions += not self.connected
        self.connected = True
        self.cost.execs += 1
        if not self.script:
            raise AssertionError(f"{self.host}: nothing more was expected")
        expected, answer = self.script.pop(0)
        if expected.encode() not in stdin:
            raise AssertionError(f"{self.host}: expected a request with {expected!r}")
        if isinstance(answer, Exception):
            raise answer
        return answer
