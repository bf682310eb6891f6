"""What compilers use, and their pausing and end: each has a session of its own."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Usage:
    """Of all processes of a session together."""

    memory: int = 0
    """Bytes that are resident."""
    cpu: float = 0.0
    """Seconds, those of processes that have ended and been waited for included."""


def usage(sessions: Iterable[int]) -> dict[int, Usage]:
    """Session → what it uses at this moment."""
    found = {session: Usage() for session in sessions}
    for _, session, ticks, pages in _living():
        if session in found:
            found[session].memory += pages * PAGE
            found[session].cpu += ticks / TICKS
    return found


def send(sessions: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to every process of the sessions: nvcc has process groups below it."""
    wanted = set(sessions)
    for pid, session, _, _ in _living() if wanted else ():
        if session in wanted:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def parse_stat(text: str) -> tuple[int, int, int]:
    """Session, ticks of CPU and resident pages of /proc/PID/stat: fields 6, 14 to 17, 24 (proc(5)).

    The name before them, in parentheses, may hold anything.
    """
    fields = text.rpartition(")")[2].split()
    return int(fields[3]), sum(map(int, fields[11:15])), int(fields[21])


def _living() -> Iterator[tuple[int, int, int, int]]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            yield int(stat.parent.name), *parse_stat(stat.read_text("utf-8", "replace"))
