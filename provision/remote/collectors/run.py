"""The apply that holds this host's lock at the moment. Absent when none does."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from provision.remote.command import Failed, Missing
from provision.remote.lock import held
from provision.remote.paths import ACTIVE
from provision.remote.probe import Query

NAME = "run"
PATIENCE = 2.0
"""Seconds within which a run that has the lock says who it is."""


def collect(_query: Query) -> dict[str, Any]:
    end = time.monotonic() + PATIENCE
    while held():
        active = json.loads(ACTIVE.read_text()) if ACTIVE.exists() else {}
        if Path(f"/proc/{active.get('pid')}").exists():
            return parse_active(active)
        if time.monotonic() > end:
            raise Failed("a run holds the lock and does not say who it is")
        time.sleep(0.05)
    raise Missing("no run is going on")


def parse_active(active: dict[str, Any]) -> dict[str, Any]:
    """Run, who started it, and since when (seconds since the epoch)."""
    return {name: active[name] for name in ("run", "who", "since")}
