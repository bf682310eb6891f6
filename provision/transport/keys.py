"""Which keys are offered, in OpenSSH's order: those configured, then the agent's others.

A server counts every key that it refuses; after about six it hangs up (MaxAuthTries), so an agent
with many keys must not be emptied onto it where the configuration names one.
"""

from __future__ import annotations

import base64
import getpass
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import paramiko
from paramiko.auth_strategy import AuthSource, AuthStrategy, InMemoryPrivateKey

from provision.transport.address import Address

UNREADABLE = (paramiko.SSHException, paramiko.pkey.UnknownKeyType, OSError, ValueError)

_once = threading.Lock()
_unlocked: dict[str, paramiko.PKey | None] = {}
"""Encrypted keys that were asked about; None where the passphrase was another one."""


class Keys(AuthStrategy):
    """The keys of one login."""

    def __init__(self, address: Address) -> None:
        super().__init__(ssh_config=paramiko.SSHConfig())
        self.address = address
        self.tried: list[str] = []

    def get_sources(self) -> Iterator[AuthSource]:
        agent = {key.asbytes(): key for key in _agent_keys()}
        for path in self.address.identities:
            key = agent.pop(_public(path), None) or _load(path, self.tried)
            if key is not None:
                self.tried.append(path)
                yield InMemoryPrivateKey(self.address.user, key)
        if not self.address.identities_only:
            for key in agent.values():
                self.tried.append(f"the agent's {key.get_name()}")
                yield InMemoryPrivateKey(self.address.user, key)


def _agent_keys() -> list[paramiko.AgentKey]:
    """Security keys (sk-) are left out: paramiko can't use them, and would stop at them."""
    return [k for k in paramiko.Agent().get_keys() if not k.get_name().startswith("sk-")]


def _public(path: str) -> bytes:
    """The public half that lies beside a private key; b'' where none does."""
    try:
        return base64.b64decode(Path(f"{path}.pub").read_text(encoding="utf-8").split()[1])
    except (OSError, IndexError, ValueError):
        return b""


def _load(path: str, tried: list[str]) -> paramiko.PKey | None:
    """A private key from its file; a passphrase is asked for where somebody can answer."""
    try:
        return _read(path, None)
    except TypeError:  # cryptography's way to say that it is encrypted
        pass
    except UNREADABLE as error:
        tried.append(f"{path} (can't be read: {error})")
        return None
    if not sys.stdin.isatty():
        tried.append(f"{path} (has a passphrase: ssh-add {path})")
        return None
    key = _unlock(path)
    if key is None:
        tried.append(f"{path} (another passphrase)")
    return key


def _unlock(path: str) -> paramiko.PKey | None:
    """A key whose passphrase is asked for; once for all hosts of this run."""
    with _once:
        if path not in _unlocked:
            try:
                _unlocked[path] = _read(path, getpass.getpass(f"passphrase of {path}: ").encode())
            except UNREADABLE:
                _unlocked[path] = None
        return _unlocked[path]


def _read(path: str, passphrase: bytes | None) -> paramiko.PKey:
    # paramiko's annotation says str, what it calls wants bytes
    return paramiko.PKey.from_path(path, passphrase)  # type: ignore[arg-type]
