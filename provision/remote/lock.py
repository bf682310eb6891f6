"""The host's one lock, which the kernel releases: who holds it, and how that run is stopped."""

from __future__ import annotations

import fcntl
import json
import time
from pathlib import Path
from typing import Any, BinaryIO

from provision.remote.command import Failed
from provision.remote.paths import ACTIVE, CANCEL, LOCK, RUN, private, replace, secret

PATIENCE = 5.0
"""Seconds to wait for the lock: a probe holds it for an instant while it looks."""
NAMELESS = 2.0
"""Seconds within which a run that has the lock says who it is."""


def take_lock() -> BinaryIO | None:
    """The host's one lock, held until the file is closed or the process dies.

    None when another run holds it.
    """
    private(RUN)
    file = open(LOCK, "wb", opener=secret)  # noqa: SIM115 - held open on purpose
    end = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # A probe holds it for an instant; a run, which says so, holds it for long.
            if ACTIVE.exists() or time.monotonic() > end:
                file.close()
                return None
            time.sleep(0.05)
        else:
            return file


def held() -> bool:
    """Whether a run holds the host's lock; those who look share the lock for an instant."""
    if not LOCK.exists():
        return False
    with LOCK.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def going_on() -> dict[str, Any]:
    """What the run that holds the lock says of itself; {} when none does.

    One that is at its end is waited for. Raises Failed when it does not say who it is.
    """
    end = time.monotonic() + NAMELESS
    while held():
        said = active()
        if Path(f"/proc/{said.get('pid')}").exists():
            return said
        if time.monotonic() > end:
            raise Failed("a run holds the lock and does not say who it is")
        time.sleep(0.05)
    return {}


def cancel(run: str, by: str) -> bool:
    """Ask a run to stop before its next change; False when it is not the one going on."""
    if not held() or active().get("run") != run:
        return False
    replace(CANCEL, json.dumps({"run": run, "by": by}).encode(), 0o600)
    return True


def cancelled(run: str) -> str | None:
    """Who asked this run to stop, None when nobody did."""
    if not CANCEL.exists():
        return None
    asked = json.loads(CANCEL.read_text(encoding="utf-8"))
    return str(asked["by"]) if asked["run"] == run else None


def active() -> dict[str, Any]:
    """What the run that goes on, or that was killed last, says of itself; {} when none does."""
    try:
        said: dict[str, Any] = json.loads(ACTIVE.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return said
