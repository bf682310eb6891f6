"""How much memory the probe's own cgroup may use, and how many processors."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from provision.remote.collectors.reading import need, read
from provision.remote.command import Failed
from provision.remote.probe import Query

NAME = "memory"
FILES = {"cgroup2": "memory.max", "cgroup": "memory.limit_in_bytes"}
"""The file with a group's limit, by the type of file system."""


def collect(_query: Query) -> dict[str, Any]:
    sizes = parse_meminfo(need("/proc/meminfo"))
    paths = limit_files(need("/proc/self/cgroup"), need("/proc/self/mountinfo"))
    return {
        **sizes,
        "limit": least(paths, read, sizes["total"]),
        "cpus": len(os.sched_getaffinity(0)),
    }


def parse_meminfo(text: str) -> dict[str, int]:
    """Bytes, from the kibibytes of /proc/meminfo."""
    found = dict(re.findall(r"^(MemTotal|MemAvailable): +(\d+) kB$", text, re.MULTILINE))
    if len(found) != 2:
        raise Failed("/proc/meminfo lacks MemTotal or MemAvailable")
    return {
        "total": int(found["MemTotal"]) * 1024,
        "available": int(found["MemAvailable"]) * 1024,
    }


def limit_files(cgroup: str, mountinfo: str) -> list[str]:
    """Files that may limit this process: of its own group and of all above, in v1 and v2."""
    own = {
        ("cgroup2" if not controllers else "cgroup"): path
        for _, controllers, path in (line.split(":", 2) for line in cgroup.splitlines())
        if not controllers or "memory" in controllers.split(",")
    }
    return [
        f"{directory}/{FILES[kind]}"
        for kind, root, mount in _mounts(mountinfo)
        if kind in own
        for directory in _upwards(own[kind], root, mount)
    ]


def _mounts(mountinfo: str) -> Iterator[tuple[str, str, str]]:
    """Type, root and mount point of the groups' file systems (proc(5), mountinfo)."""
    for line in mountinfo.splitlines():
        place, _, what = line.partition(" - ")
        kind, _, options = what.split(" ", 2)
        if kind == "cgroup2" or (kind == "cgroup" and "memory" in options.split(",")):
            root, mount = place.split(" ")[3:5]
            yield kind, root, mount


def _upwards(path: str, root: str, mount: str) -> list[str]:
    """The group's directory and those above it, down to the mount point.

    Only what lies below the mount's root is seen; a container's own view may start at its group.
    """
    below = "" if root == "/" else root
    inside = path == below or path.startswith(below + "/")
    parts = [part for part in path[len(below) :].split("/") if part] if inside else []
    if ".." in parts:
        parts = []
    return ["/".join([mount, *parts[:depth]]) for depth in range(len(parts), -1, -1)]


def least(paths: list[str], reader: Callable[[str], str | None], total: int) -> int | None:
    """The least limit in bytes, None where none is below what the machine has.

    The root group has no file; "no limit" is 'max' in v2 and a number near 2^63 in v1.
    """
    texts = [text for path in paths if (text := reader(path)) is not None]
    limits = [int(text) for text in texts if text != "max"]
    return min((limit for limit in limits if limit < total), default=None)
