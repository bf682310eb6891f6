"""What the asked-for files contain, as digests."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path
from typing import Any

from provision.remote.collectors.reading import NOT_THERE
from provision.remote.command import Failed
from provision.remote.probe import Query

NAME = "files"
DIRECTORY = "directory"
"""Instead of a digest, where a folder stands in the way."""


def collect(query: Query) -> dict[str, Any]:
    return {path: describe(Path(path)) for path in query["files"]}


def describe(path: Path) -> dict[str, Any] | None:
    """Digest and permission bits, links followed; None where there is nothing."""
    try:
        mode = path.stat().st_mode
    except NOT_THERE:
        return None
    if stat.S_ISDIR(mode):
        return {"sha256": DIRECTORY, "mode": stat.S_IMODE(mode)}
    if not stat.S_ISREG(mode):
        raise Failed(f"{path} is not a regular file")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"sha256": digest, "mode": stat.S_IMODE(mode)}
