"""Which run was started last: a plan from before it is stale."""

from __future__ import annotations

from typing import Any

from provision.remote.journal import last_run
from provision.remote.probe import Query

NAME = "journal"


def collect(_query: Query) -> dict[str, Any]:
    return {"last": last_run()}
