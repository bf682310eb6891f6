"""Who holds a lock of apt or dpkg, and waiting until it is free. They are POSIX (fcntl) locks."""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FRONTEND = Path("/var/lib/dpkg/lock-frontend")
"""Held by whoever works with dpkg, apt-get included, from beginning to end."""
LISTS = Path("/var/lib/apt/lists/lock")
"""Held while the index is fetched. apt-get does not wait for it, whatever it is told."""
ARCHIVES = Path("/var/cache/apt/archives/lock")
"""Held while packages are fetched, by unattended-upgrades without the one before. Likewise."""

FLOCK = struct.Struct("hhqqi4x")
"""struct flock as 64-bit Linux has it: type, whence, start, length, pid (fcntl(2))."""
POLL = 0.5
"""Seconds between two looks at a lock that is held."""


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


def holder(path: Path) -> Holder | None:
    """Who holds the lock of a file; None where nobody does, or the file is not there."""
    asked = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        with path.open("rb") as file:
            kind, _, _, _, pid = FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, asked))
    except FileNotFoundError:
        return None
    return None if kind == fcntl.F_UNLCK else Holder(pid, _name(pid))


def _name(pid: int) -> str:
    """A process's own name; it may end at this moment, or live in another container (pid 0)."""
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return "a process"


def await_free(path: Path, say: Callable[[str], None], patience: float) -> Holder | None:
    """Wait until nobody holds a lock; say once for each holder that it is waited for.

    Gives whoever still holds it after `patience` seconds, None when it is free.
    """
    end = time.monotonic() + patience
    said = None
    while found := holder(path):
        if time.monotonic() >= end:
            return found
        if found != said:
            say(f"waiting for {path}: held by {found}")
            said = found
        time.sleep(POLL)
    return None
