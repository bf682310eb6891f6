"""What a login may use: locked memory, open files, shared memory."""

from __future__ import annotations

import os
import resource
from typing import Any

from provision.remote.collectors.reading import exists
from provision.remote.probe import Query

NAME = "limits"
SHARED = "/dev/shm"  # noqa: S108 - it is looked at


def collect(_query: Query) -> dict[str, Any]:
    return {
        "memlock": parse_limit(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]),
        "nofile": parse_limit(resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
        "shm": size(os.statvfs(SHARED)) if exists(SHARED) else None,
    }


def parse_limit(value: int) -> int | None:
    """None where there is no limit."""
    return None if value == resource.RLIM_INFINITY else value


def size(found: os.statvfs_result) -> int:
    """Bytes that a file system holds."""
    return found.f_blocks * found.f_frsize
