"""Where and as whom to log in: OpenSSH's own reading of its configuration, by `ssh -G`."""

from __future__ import annotations

import dataclasses
import re
import shlex
import subprocess
from pathlib import Path

from provision.errors import UsageError, shown
from provision.inventory import Host

KEEPALIVE = 15
"""Seconds, where the configuration sets none: shorter than the idle limits of NAT gateways."""
HOP = re.compile(
    r"(?:ssh://)?(?:(?P<user>.*)@)?(?:\[(?P<number>.*)\]|(?P<name>[^:/]*))(?::(?P<port>\d+))?/?"
)
"""One of ProxyJump's, as the user writes it; `ssh -G` puts a number into brackets."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """One login, and the login that it goes through, if any."""

    hostname: str
    port: int
    user: str
    name: str | None = None
    """What the inventory, or a jump, calls the host: a configuration's options stand under it."""
    identities: tuple[str, ...] = ()
    """Private key files that exist, in OpenSSH's order."""
    identities_only: bool = False
    known_hosts: tuple[Path, ...] = ()
    """The user's files, then the machine's."""
    remembers: bool = True
    """Whether new keys are written down: not where the configuration wants none of the user's."""
    host_key_alias: str | None = None
    keepalive: int = KEEPALIVE
    jump: Address | None = None
    proxy_command: str | None = None

    @property
    def key_name(self) -> str:
        """Under which known_hosts files keep the host's keys."""
        name = self.host_key_alias or self.hostname
        return name if self.port == 22 or self.host_key_alias else f"[{name}]:{self.port}"


def resolve(host: Host) -> Address:
    """Ask `ssh -G` for a host's address, so that aliases and options mean what users expect.

    Raises UsageError where there is no OpenSSH client or its configuration is wrong.
    """
    flags = ["-F", str(host.ssh_config)] if host.ssh_config else []
    own = ["-p", str(host.port)] if host.port else []
    own += ["-l", host.user] if host.user else []
    return _address(host.where, flags, own, host.address, depth=0)


def _address(where: str, flags: list[str], own: list[str], name: str, *, depth: int) -> Address:
    if depth > 8:
        raise UsageError(f"{where}: ProxyJump goes in circles at {name}")
    try:
        said = subprocess.run(
            ["ssh", *flags, *own, "-G", "--", name],
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
        )
    except FileNotFoundError as error:
        raise UsageError(
            "there is no `ssh` on this computer", hint="apt-get install openssh-client"
        ) from error
    if said.returncode:
        raise UsageError(f"{where}: ssh -G {name}: {'; '.join(said.stderr.strip().splitlines())}")
    options = {"host": [name], **parse_config(said.stdout)}
    jumps = [part for part in options.get("proxyjump", ["none"])[0].split(",") if part != "none"]
    jump = None
    for hop in jumps:  # the first hop is reached directly, each next one through it
        if not (parts := HOP.fullmatch(hop)):
            raise UsageError(f"{where}: ssh -G {name}: ProxyJump goes through {hop!r}")
        through = ["-l", parts["user"]] if parts["user"] else []
        through += ["-p", parts["port"]] if parts["port"] else []
        place = parts["number"] or parts["name"]
        one = _address(where, flags, through, place, depth=depth + 1)
        jump = one if jump is None else dataclasses.replace(one, jump=jump, proxy_command=None)
    try:
        return address(options, jump)
    except (LookupError, ValueError) as error:
        raise UsageError(f"{where}: ssh -G {name}: can't be understood: {error}") from error


def parse_config(text: str) -> dict[str, list[str]]:
    """What `ssh -G` prints: option → its values, in order."""
    options: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        options.setdefault(key, []).append(value)
    return options


def address(options: dict[str, list[str]], jump: Address | None) -> Address:
    """An address from OpenSSH's options. Raises LookupError and ValueError for what is none."""

    def first(name: str) -> str | None:
        value = options.get(name, ["none"])[0]
        return None if value == "none" else value

    files = " ".join(
        options.get("userknownhostsfile", []) + options.get("globalknownhostsfile", [])
    )
    interval = int(first("serveraliveinterval") or 0)
    hostname = options["hostname"][0]
    try:
        hostname.encode("idna")  # as the resolver does
        whole = "@" not in hostname and hostname.count(":") != 1  # Fabric would take it apart
    except UnicodeError:
        whole = False
    if not whole:
        raise ValueError(f"HostName {shown(hostname)} is no name and no IP address")
    return Address(
        hostname=hostname,
        port=int(options["port"][0]),
        user=options["user"][0],
        name=first("host"),
        identities=tuple(
            path for one in options.get("identityfile", []) if Path(path := _home(one)).is_file()
        ),
        identities_only=first("identitiesonly") == "yes",
        known_hosts=tuple(Path(_home(file)) for file in shlex.split(files) if file != "none"),
        remembers=first("userknownhostsfile") is not None,
        host_key_alias=first("hostkeyalias"),
        keepalive=interval or KEEPALIVE,
        jump=jump,
        proxy_command=first("proxycommand") if jump is None else None,
    )


def _home(path: str) -> str:
    return str(Path(path).expanduser())
