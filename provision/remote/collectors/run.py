"""The apply that holds this host's lock at the moment. Absent when none does."""

from __future__ import annotations

from typing import Any

from provision.remote.command import Missing
from provision.remote.lock import going_on
from provision.remote.probe import Query

NAME = "run"


def collect(_query: Query) -> dict[str, Any]:
    if active := going_on():
        return parse_active(active)
    raise Missing("no run is going on")


def parse_active(active: dict[str, Any]) -> dict[str, Any]:
    """Run, who started it, and since when (seconds since the epoch)."""
    return {name: active[name] for name in ("run", "who", "since")}
