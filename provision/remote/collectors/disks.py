"""How much room the asked-for file systems have, and which paths share it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from provision.remote.collectors.reading import exists
from provision.remote.probe import Query

NAME = "disks"


def collect(query: Query) -> dict[str, Any]:
    return {
        path: {**room(os.statvfs(path)), "device": Path(path).stat().st_dev}
        for path in query["mounts"]
        if exists(path)
    }


def room(found: os.statvfs_result) -> dict[str, int]:
    """Bytes in all, and those an unprivileged process could still write."""
    return {"total": found.f_blocks * found.f_frsize, "free": found.f_bavail * found.f_frsize}
