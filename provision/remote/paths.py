"""Where the tool keeps its things on a host."""

from __future__ import annotations

import os
from pathlib import Path

TOOL = "firstlight"
RUN = Path(f"/run/{TOOL}")
"""What lives until the next boot: the lock and the round that is being carried out."""
LOCK = RUN / "lock"
ACTIVE = RUN / "active.json"
CANCEL = RUN / "cancel.json"
"""Asks the run that it names to stop before its next change."""
LOG = Path(f"/var/log/{TOOL}")
JOURNAL = LOG / "journal.jsonl"
HELD = Path(f"/var/lib/{TOOL}/held")
"""A file for each package that was held when a transaction began, and is to be held again."""
BLOBS = Path(f"/var/lib/{TOOL}/blobs")
"""Uploaded files, each named by its sha256."""
ENVIRONMENTS = Path(f"/opt/{TOOL}/environments")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
KEPT = Path(f"/var/lib/{TOOL}/kept")
"""Packages of the driver before, a folder per version."""


def has(sha256: str) -> bool:
    """An uploaded file is there."""
    return (BLOBS / sha256).is_file()


def private(folder: Path) -> Path:
    """Make a folder that only root may enter."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def replace(path: Path, content: bytes, mode: int) -> None:
    """Put a file in one step: readers see the old content or the new, never a part."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{TOOL}-new")
    with open(fresh, "wb", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.chmod(mode)
    fresh.rename(path)


def secret(path: str, flags: int) -> int:
    """An opener of files that only root may read."""
    return os.open(path, flags, 0o600)
