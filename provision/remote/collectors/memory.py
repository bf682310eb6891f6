"""How much memory our own cgroup may use, how much of it is left, and how many processors."""

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
USED = {
    "memory.max": ("memory.current", "inactive_file"),
    "memory.limit_in_bytes": ("memory.usage_in_bytes", "total_inactive_file"),
}
"""Beside that file: what the group uses, and the line of memory.stat with the cache of files in it
that nobody uses, which the kernel drops first."""

Reader = Callable[[str], "str | None"]


def collect(_query: Query) -> dict[str, Any]:
    sizes = parse_meminfo(need("/proc/meminfo"))
    cgroup, mounts = need("/proc/self/cgroup"), need("/proc/self/mountinfo")
    paths = limit_files(cgroup, mounts)
    return {
        **sizes,
        "available": min([sizes["available"], *headrooms(paths, read, sizes["total"])]),
        "limit": least(paths, read, sizes["total"]),
        "cpus": processors(cgroup, mounts, read, len(os.sched_getaffinity(0))),
    }


def available() -> int:
    """Bytes that this process may still use: what the machine has, or a cgroup above leaves.

    What lies in tmpfs counts as used.
    """
    sizes = parse_meminfo(need("/proc/meminfo"))
    paths = limit_files(need("/proc/self/cgroup"), need("/proc/self/mountinfo"))
    return min([sizes["available"], *headrooms(paths, read, sizes["total"])])


def pressure() -> float:
    """How much of the last ten seconds nothing went on for want of memory, in percent.

    The worst of the machine and of the cgroups above; 0 where the kernel does not tell.
    """
    paths = pressure_files(need("/proc/self/cgroup"), need("/proc/self/mountinfo"))
    return stalled(["/proc/pressure/memory", *paths], read)


def pressure_files(cgroup: str, mountinfo: str) -> list[str]:
    """Files that tell of it for this process' own group and all above; v1 has none."""
    groups = _groups("memory", cgroup, mountinfo)
    return [f"{directory}/memory.pressure" for kind, directory in groups if kind == "cgroup2"]


def stalled(paths: list[str], reader: Reader) -> float:
    """The greatest share of time, in percent, in which all processes stood still ("full")."""
    found = [
        re.search(r"^full avg10=([0-9.]+) ", reader(path) or "", re.MULTILINE) for path in paths
    ]
    return max((float(match[1]) for match in found if match), default=0.0)


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
    return [
        f"{directory}/{FILES[kind]}" for kind, directory in _groups("memory", cgroup, mountinfo)
    ]


def _groups(controller: str, cgroup: str, mountinfo: str) -> Iterator[tuple[str, str]]:
    """Type and directory of every group of this process and above that the controller may limit."""
    own = {
        ("cgroup2" if not controllers else "cgroup"): path
        for _, controllers, path in (line.split(":", 2) for line in cgroup.splitlines())
        if not controllers or controller in controllers.split(",")
    }
    for kind, root, mount in _mounts(controller, mountinfo):
        if kind in own:
            for directory in _upwards(own[kind], root, mount):
                yield kind, directory


def _mounts(controller: str, mountinfo: str) -> Iterator[tuple[str, str, str]]:
    """Type, root and mount point of the groups' file systems (proc(5), mountinfo)."""
    for line in mountinfo.splitlines():
        place, _, what = line.partition(" - ")
        kind, _, options = what.split(" ", 2)
        if kind == "cgroup2" or (kind == "cgroup" and controller in options.split(",")):
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


def headrooms(paths: list[str], reader: Reader, total: int) -> list[int]:
    """Bytes that each limited group has left, in the same order; none of what has no limit."""
    found = []
    for path in paths:
        folder, _, name = path.rpartition("/")
        limit = least([path], reader, total)
        usage, idle = USED[name]
        used, stat = reader(f"{folder}/{usage}"), reader(f"{folder}/memory.stat")
        if limit is not None and used is not None:
            line = re.search(rf"^{idle} (\d+)$", stat or "", re.MULTILINE)
            found.append(max(0, limit - int(used) + (int(line[1]) if line else 0)))
    return found


def processors(cgroup: str, mountinfo: str, reader: Reader, affinity: int) -> int:
    """Those that we may run on, or the least share of time that a group above has."""
    shares = []
    for kind, folder in _groups("cpu", cgroup, mountinfo):
        if kind == "cgroup2":
            quota, *rest = (reader(f"{folder}/cpu.max") or "max").split()
            period = rest[0] if rest else "100000"
        else:
            quota = reader(f"{folder}/cpu.cfs_quota_us") or "-1"
            period = reader(f"{folder}/cpu.cfs_period_us") or "100000"
        if quota not in ("max", "-1"):
            shares.append(int(quota) / int(period))
    return max(1, int(min([affinity, *shares])))


def least(paths: list[str], reader: Reader, total: int) -> int | None:
    """The least limit in bytes, None where none is below what the machine has.

    The root group has no file; "no limit" is 'max' in v2 and a number near 2^63 in v1.
    """
    texts = [text for path in paths if (text := reader(path)) is not None]
    limits = [int(text) for text in texts if text != "max"]
    return min((limit for limit in limits if limit < total), default=None)
