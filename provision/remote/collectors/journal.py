"""Which run was started last: a plan from before it is stale; and what failed in it."""

from __future__ import annotations

from typing import Any

from provision.remote.journal import failed, last_run
from provision.remote.paths import BOOT_ID
from provision.remote.probe import Query

NAME = "journal"


def collect(_query: Query) -> dict[str, Any]:
    return {"last": last_run(), "failed": failed(BOOT_ID.read_text(encoding="utf-8").strip())}
