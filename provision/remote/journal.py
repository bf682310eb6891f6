"""The host's own account of what was done: append-only JSON lines, each on disk before the next."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

from provision.remote.masked import masked
from provision.remote.paths import JOURNAL, LOG, private

NAMED = ("run", "event")
"""What every event bears."""


def append(run: str, event: str, **fields: Any) -> None:  # noqa: ANN401 - any JSON
    """Write one event of a run, flushed to disk; without passwords that programs repeat."""
    private(LOG)
    said = {"time": round(time.time(), 3), "run": run, "event": event, **fields}
    line = masked(json.dumps(said))
    handle = os.open(JOURNAL, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(handle).st_size
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        os.write(handle, b"\n" * torn + line.encode() + b"\n")
        os.fsync(handle)
    finally:
        os.close(handle)


class Tail:
    """The events of one run as they are written, from the journal's beginning on."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.offset = 0

    def new(self) -> Iterator[dict[str, Any]]:
        """Events since the last call; a line cut short by a crash is passed over."""
        if not JOURNAL.exists():
            return
        with JOURNAL.open("rb") as file:
            file.seek(self.offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self.offset += len(line)
                event = _read(line)
                if event.get("run") == self.run:
                    yield event


def started() -> list[str]:
    """The runs that were started, in order."""
    return _started(_events())


def last_run() -> str | None:
    """The run that was started last, None where none ever was."""
    runs = started()
    return runs[-1] if runs else None


def latest(runs: int) -> list[dict[str, Any]]:
    """All events of the runs that were started last, in order."""
    events = _events()
    wanted = set(_started(events)[-runs:])
    return [event for event in events if event.get("run") in wanted]


def failed(boot: str) -> list[str]:
    """Ids of the changes that failed in the last run, if that was in this boot."""
    events = latest(1)
    if not any(event.get("boot") == boot for event in events):
        return []
    return [str(event.get("id")) for event in events if event.get("event") == "failed"]


def _events() -> list[dict[str, Any]]:
    if not JOURNAL.exists():
        return []
    with JOURNAL.open("rb") as file:
        return [event for line in file if (event := _read(line))]


def _started(events: list[dict[str, Any]]) -> list[str]:
    return [str(event.get("run")) for event in events if event.get("event") == "start"]


def _read(line: bytes) -> dict[str, Any]:
    """The line's event; {} where it is none: cut short by a crash, or written by others."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    whole = isinstance(event, dict) and all(isinstance(event.get(name), str) for name in NAMED)
    return event if whole else {}
