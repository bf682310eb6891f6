"""Runs a command with everything that it starts, up to a deadline."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

GRACE = 10.0
"""Seconds between the request to end and the end."""
POLL = 0.1


def run(argv: Sequence[str], *, output: BinaryIO, env: Mapping[str, str], timeout: float) -> int:
    """Run a command without a terminal or input; its exit status.

    Raises subprocess.TimeoutExpired when it outlasts `timeout` seconds: then none of the
    processes that it started is left, either.
    """
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=env,
        start_new_session=True,
    )
    try:
        return process.wait(timeout)
    except BaseException:
        _end(process)
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a session's processes, and those that made a session of their own, as apt's dpkg does."""
    sessions = {process.pid}
    for number in (signal.SIGTERM, signal.SIGKILL):
        # The command first: a shell whose child is gone goes on before it hears of the request.
        for pid in sorted(_members(sessions), key=lambda pid: pid != process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        end = time.monotonic() + GRACE
        while process.poll() is None or _members(sessions):
            if time.monotonic() > end:
                break
            time.sleep(POLL)


def _members(sessions: set[int]) -> set[int]:
    """Living processes of the sessions, and their children, whose sessions are added."""
    living = _processes()
    found: set[int] = set()
    while more := {
        pid
        for pid, (parent, session) in living.items()
        if pid not in found and (session in sessions or parent in found)
    }:
        found |= more
        sessions |= {living[pid][1] for pid in more}
    return found


def _processes() -> dict[int, tuple[int, int]]:
    """Every process that is no zombie → its parent and its session."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            # pid (name) state parent group session …: proc(5)
            stat = path.read_text("utf-8", "replace")  # a name may be any bytes
            state, parent, _, session = stat.rpartition(")")[2].split()[:4]
            if state not in ("Z", "X"):
                found[int(path.parent.name)] = (int(parent), int(session))
    return found
