"""Which processes have a GPU's device file open: while any does, its module can't be exchanged."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from provision.remote.collectors.reading import names, read
from provision.remote.probe import Query

NAME = "gpu_users"
PROC = Path("/proc")
DEVICE = "/dev/nvidia"
UNIT = re.compile(r"/([^/]+\.(?:service|scope))(?=/|$)")
MANAGER = re.compile(r"^(?:0:|\d+:name=systemd):(.*)$", re.MULTILINE)
"""The hierarchy in which systemd puts its units: of version 2, or its own of version 1."""


def collect(_query: Query) -> list[dict[str, Any]]:
    return [
        {
            "pid": int(pid),
            "name": read(PROC / pid / "comm") or "?",
            "unit": parse_unit(read(PROC / pid / "cgroup") or ""),
        }
        for pid in names(PROC)
        if pid.isdigit() and any(path.startswith(DEVICE) for path in _open(pid)) and not _ours(pid)
    ]


def _ours(pid: str) -> bool:
    """Whether the probe itself started it: its nvidia-smi runs at this very moment."""
    after_name = (read(PROC / pid / "stat") or "").rpartition(")")[2]
    return after_name.split()[1:2] == [str(os.getpid())]


def _open(pid: str) -> Iterator[str]:
    """The files that a process has open; none of one that is gone by now."""
    folder = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(folder)  # noqa: PTH208 - quick on purpose: many processes
    except OSError:
        return
    for number in numbers:
        try:
            yield os.readlink(f"{folder}/{number}")  # noqa: PTH115
        except OSError:
            continue


def parse_unit(cgroup: str) -> str | None:
    """The host's own unit that a process belongs to, from its /proc/PID/cgroup.

    Those of a user's manager or of a container stand below it: the host's can't stop them.
    """
    for path in MANAGER.findall(cgroup):
        if unit := UNIT.search(path):
            return unit[1]
    return None
