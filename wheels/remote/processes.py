"""What compilers use: the memory of a session's processes, their pausing and their end."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident(sessions: Iterable[int]) -> dict[int, int]:
    """Session → bytes that its processes have in memory, all of them together."""
    found = dict.fromkeys(sessions, 0)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            session, pages = parse_stat(stat.read_text())
            if session in found:
                found[session] += pages * PAGE
    return found


def parse_stat(text: str) -> tuple[int, int]:
    """Session and resident pages of /proc/PID/stat: fields 6 and 24 (proc(5)).

    The name before them, in parentheses, may hold anything.
    """
    fields = text.rpartition(")")[2].split()
    return int(fields[3]), int(fields[21])


def signal_all(sessions: Mapping[int, int] | Iterable[int], number: signal.Signals) -> None:
    """Send a signal to every process of the sessions: a compiler has groups of its own below it."""
    wanted = set(sessions)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            session, _ = parse_stat(stat.read_text())
            if session in wanted:
                os.kill(int(stat.parent.name), number)
