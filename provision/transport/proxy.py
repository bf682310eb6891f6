"""A ProxyCommand: the program whose input and output are the way to a host.

Fabric expands its tokens by a configuration of its own, which knows neither port nor user; and
paramiko's ProxyCommand knows no shell and never sees that the program has ended.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from contextlib import ExitStack, suppress

from provision.transport.address import Address


def expand(command: str, address: Address) -> str:
    """The command, its tokens replaced as ssh_config(5) has it."""
    tokens = {
        "%%": "%",
        "%h": address.hostname,
        "%n": address.name or address.hostname,
        "%p": str(address.port),
        "%r": address.user,
    }
    return re.sub("%[%hnpr]", lambda token: tokens[token[0]], command)


def start(command: str, chain: ExitStack) -> socket.socket:
    """Start it as OpenSSH does; leaving the chain ends it."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [os.environ.get("SHELL") or "/bin/sh", "-c", f"exec {command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
        )
    chain.callback(_end, process)
    return ours


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(PermissionError):  # sudo can't be killed; it ends when its input does
        process.kill()
        process.wait()
