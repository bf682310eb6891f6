"""What became of each unit: read by the next attempt, by the wheel's provenance and the picture."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Write one row: a line of JSON."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, separators=(",", ":")) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    """All rows; a line that a crash cut short is passed over."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def command(argv: Iterable[str]) -> str:
    """Names a compiler's command: another one makes another object."""
    return hashlib.sha256("\0".join(argv).encode()).hexdigest()


def made(object_: Path) -> list[int] | None:
    """Size and time of an object, None where it is not there: it is known again by these."""
    try:
        stat = object_.stat()
    except OSError:
        return None
    return [stat.st_size, stat.st_mtime_ns]


def finished(rows: Iterable[Mapping[str, Any]], unit: str, digest: str, object_: Path) -> bool:
    """The unit was compiled by this very command, and its object is still the one it made."""
    there = made(object_)
    return there is not None and any(
        row.get("unit") == unit
        and row.get("command") == digest
        and row.get("exit") == 0
        and row.get("made") == there
        for row in rows
    )
