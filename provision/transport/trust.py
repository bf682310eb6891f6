"""Whether a host is who it should be. Fabric by itself accepts any key, a changed one too."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko

from provision.errors import HostKeyError
from provision.transport.address import Address
from provision.transport.keys import UNREADABLE


@dataclass(frozen=True, kw_only=True, slots=True)
class Trust:
    """What makes an unknown key acceptable; a changed one never is."""

    fingerprint: str | None = None
    """As the inventory states it, such as 'SHA256:…'."""
    accept_new: bool = False


class Judge(paramiko.MissingHostKeyPolicy):
    """Decides on a host's key. paramiko itself knows none, and so asks about each."""

    def __init__(self, address: Address, host: str, trust: Trust) -> None:
        self.address, self.host, self.trust = address, host, trust
        lines = [line for file in address.known_hosts for line in _lines(file)]
        self.revoked = [key for marker, _, key in lines if marker == "@revoked"]
        self.known = [
            key for marker, names, key in lines if not marker and _named(address.key_name, names)
        ]

    def prefer(self, transport: paramiko.Transport) -> None:
        """Ask the host for a key of a kind that is known, where it has several."""
        known = {key.get_name() for key in self.known}
        options = transport.get_security_options()
        options.key_types = sorted(
            options.key_types, key=lambda kind: re.sub("^rsa-.*", "ssh-rsa", kind) not in known
        )

    def missing_host_key(
        self,
        client: paramiko.SSHClient,  # noqa: ARG002
        hostname: str,  # noqa: ARG002
        key: paramiko.PKey,
    ) -> None:
        """Raises TransportError unless the key is the host's."""
        offered, stated, where = fingerprint(key), self.trust.fingerprint, self.address.hostname
        if key in self.revoked:
            raise HostKeyError(
                f"{self.host}: the host key of {where} is REVOKED: {key.get_name()} {offered}",
                hint="known_hosts says so; give the host a new key",
            )
        if self.known and key not in self.known:
            known = ", ".join(fingerprint(one) for one in self.known)
            raise HostKeyError(
                f"{self.host}: the host key of {where} has CHANGED: "
                f"it offers {offered}, known is {known}",
                hint=f"if the host was made anew: ssh-keygen -R '{self.address.key_name}'; "
                "if not, somebody is in between",
            )
        if stated and offered != stated:
            raise HostKeyError(
                f"{self.host}: {where} offers the host key {offered}, "
                f"the inventory states {stated}",
                hint="correct `host_key` there, if the host was made anew",
            )
        if self.known or stated:
            return
        if not self.trust.accept_new:
            raise HostKeyError(
                f"{self.host}: the host key of {where} is not known: {key.get_name()} {offered}",
                hint="compare it with the host's own (ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub); "
                "then repeat with --accept-new-host-key, or put it into the inventory: `host_key`",
            )
        _remember(self.address, key)


def _lines(file: Path) -> Iterator[tuple[str, str, paramiko.PKey]]:
    """Marker, names and key of the lines that can be read; others vouch for nobody."""
    if not file.is_file():
        return
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        marker, *words = line.split() if line.lstrip().startswith("@") else ("", *line.split())
        if len(words) < 3 or words[0].startswith("#"):
            continue
        names, kind, data, *_ = words
        try:
            key = paramiko.PKey.from_type_string(kind, base64.b64decode(data, validate=True))
        except (*UNREADABLE, OverflowError):  # the latter for a number below zero
            continue
        yield marker, names, key


def _named(name: str, names: str) -> bool:
    """Whether a line's names, hashes and patterns hold for a host; `!` makes one an exception."""
    found = False
    for one in names.split(","):
        if one.startswith("|1|"):
            found |= _hashed(name, one)
        elif re.fullmatch(_pattern(one.removeprefix("!")), name):
            if one.startswith("!"):
                return False
            found = True
    return found


def _pattern(one: str) -> str:
    return re.escape(one).replace(r"\*", ".*").replace(r"\?", ".")


def _hashed(name: str, one: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part) for part in one[3:].split("|"))
    except ValueError:
        return False
    return hmac.digest(salt, name.encode(), "sha1") == digest


def fingerprint(key: paramiko.PKey) -> str:
    """As OpenSSH prints it."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).rstrip(b"=")
    return f"SHA256:{digest.decode()}"


def _remember(address: Address, key: paramiko.PKey) -> None:
    if not address.remembers:
        return
    files = [*address.known_hosts, Path("~/.ssh/known_hosts").expanduser()]
    file = files[0]
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as out:
        out.write(f"{address.key_name} {key.get_name()} {key.get_base64()}\n")
