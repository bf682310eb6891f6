"""The processes of a running host, seen from the machine."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def signal_guest(above: int, number: signal.Signals) -> bool:
    """Signal the nspawn below a process: TERM powers the guest off, KILL pulls its plug."""
    with contextlib.suppress(OSError):
        nspawn = _nspawn(above)
        if nspawn:
            os.kill(nspawn, number)
            return True
    return False


def leader(above: int) -> int | None:
    """The guest's PID 1, below a host's supervisor; None when none runs."""
    nspawn = _nspawn(above)
    return next(iter(_descendants(nspawn)), None) if nspawn else None


def kill_at_once(first: int) -> None:
    """Kill a guest's PID 1, and with it all others: none of them sees another one die before.

    Looked for twice, because one may have forked meanwhile.
    """
    for _ in range(2):
        for pid in (first, *_descendants(first)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
    os.kill(first, signal.SIGKILL)  # the kernel then kills the rest of its PID namespace


def _nspawn(above: int) -> int | None:
    for pid in _descendants(above):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == "systemd-nspawn":
                return pid
    return None


def _descendants(pid: int) -> list[int]:
    """All processes below one, parents first."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
    found = [pid]
    for parent in found:
        found += [child for child, of in parents.items() if of == parent]
    return found[1:]
