"""The apply that holds this host's lock at the moment. Absent when none does."""

from __future__ import annotations

import json
from typing import Any

from provision.remote.command import Missing
from provision.remote.paths import ACTIVE, LOCK
from provision.remote.probe import Query
from provision.remote.runner import take_lock

NAME = "run"


def collect(_query: Query) -> dict[str, Any]:
    if LOCK.exists():
        lock = take_lock(0.0)
        if lock is None:
            return parse_active(ACTIVE.read_text())
        lock.close()
    raise Missing("no run is going on")


def parse_active(text: str) -> dict[str, Any]:
    """Run, who started it, and since when (seconds since the epoch)."""
    active = json.loads(text)
    return {name: active[name] for name in ("run", "who", "since")}
