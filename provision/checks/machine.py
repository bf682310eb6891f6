"""What GPUs' programs need of the machine around them: time, room, limits, a trusted module."""

from __future__ import annotations

from collections.abc import Callable

from provision.checks.finding import Action, Finding, judge, unknown, unseen
from provision.facts import Clock, Driver, Facts, Limits, SecureBoot
from provision.want import Want

KIB, MIB, GIB = 2**10, 2**20, 2**30
ROOM = {"/": 5.0, "/var": 5.0, "/opt": 5.0, "/boot": 0.1}
"""GiB that stay free: logs and cores of a day; an initrd (0.1 as Debian's is, with modules)."""
MEMLOCK = 8 * MIB
"""Bytes: systemd's own default since version 246; io_uring and RDMA fail below it."""
NOFILE = 4096
"""Linux's own hard limit (INR_OPEN_MAX); vLLM likes 65535, and only warns below that."""
SHM = GIB
"""What NVIDIA's release notes of its PyTorch container ask for: --shm-size=1g."""


def check(want: Want, facts: Facts) -> list[Finding]:  # noqa: ARG001 - every check has both
    return [*_clock(facts), *_disks(facts), *_limits(facts), *_secure_boot(facts)]


def _clock(facts: Facts) -> list[Finding]:
    """A container that may not ask has the time of the machine below it: no row."""
    if not isinstance(facts.clock, Clock):
        return [unknown("clock", "host", expected="synchronised", reason=unseen(facts.clock))]
    if facts.clock.synchronised is None:
        return []
    return [
        judge(
            "clock",
            "host",
            facts.clock.synchronised,
            expected="synchronised",
            observed="synchronised" if facts.clock.synchronised else "not synchronised",
            action=Action.RESTART,
            reason="TLS, logs and tokens need the time: systemctl restart systemd-timesyncd, or "
            "whatever keeps it there",
            noun="is",
        )
    ]


def _disks(facts: Facts) -> list[Finding]:
    """The largest need of the paths on one file system, once."""
    if not isinstance(facts.disks, dict):
        return [unknown("disk", "host", expected="room", reason=unseen(facts.disks))]
    shared: dict[int, list[str]] = {}
    for path in ROOM.keys() & facts.disks.keys():
        shared.setdefault(facts.disks[path].device, []).append(path)
    rows = []
    for paths in shared.values():
        path = max(sorted(paths), key=ROOM.__getitem__)
        free = facts.disks[path].free / GIB
        rows.append(
            judge(
                "disk",
                path,
                free >= ROOM[path],
                expected=f"at least {ROOM[path]:g} GiB free",
                observed=f"{free:.1f} GiB free",
                action=Action.INSPECT,
                reason="servers stop in the middle of a log line when it is full",
                noun="has",
            )
        )
    return sorted(rows, key=lambda row: row.subject)


def _limits(facts: Facts) -> list[Finding]:
    if not isinstance(facts.limits, Limits):
        return [unknown("limit", "host", expected="wide enough", reason=unseen(facts.limits))]
    have = facts.limits
    return [
        _limit(
            "memlock", _size, have.memlock, MEMLOCK, "LimitMEMLOCK= of the unit, or limits.conf"
        ),
        _limit("nofile", str, have.nofile, NOFILE, "LimitNOFILE= of the unit, or limits.conf"),
        _limit(
            "shm", _size, have.shm or 0, SHM, "size= of /dev/shm; of a container: --shm-size=1g"
        ),
    ]


def _limit(
    name: str, words: Callable[[int], str], most: int | None, least: int, where: str
) -> Finding:
    return judge(
        f"limit.{name}",
        "login",
        most is None or most >= least,
        expected=f"at least {words(least)}",
        observed="unlimited" if most is None else words(most),
        action=Action.INSPECT,
        reason=f"NCCL and servers fail late, and without saying why: raise it ({where})",
    )


def _size(count: int) -> str:
    """Bytes as people read them."""
    for unit, size in (("GiB", GIB), ("MiB", MIB)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count / KIB:.4g} KiB"


def _secure_boot(facts: Facts) -> list[Finding]:
    """A module that is loaded is trusted, whoever signed it."""
    there = facts.secure_boot
    if not isinstance(there, SecureBoot):
        return []
    loaded = isinstance(facts.driver, Driver) and facts.driver.loaded is not None
    well = not there.enabled or loaded or there.enrolled is True
    return [
        judge(
            "secure_boot",
            "host",
            well,
            expected="off, or it trusts the module's key",
            observed="on, and the key is not enrolled" if not well else "no hindrance",
            action=Action.INSPECT,
            reason="the module is refused (Key was rejected by service): mokutil --import, then "
            "enrol it at the console",
            noun="is",
        )
    ]
