"""Looks at files and folders so that "not there" and "not to be seen" stay different.

pathlib's own questions answer no, and its globs nothing, where a folder may not be read.
"""

from __future__ import annotations

import os
from pathlib import Path

NOT_THERE = (FileNotFoundError, NotADirectoryError)


def read(path: str | Path) -> str | None:
    """Stripped text of a file, None where there is none."""
    try:
        return need(path)
    except NOT_THERE:
        return None


def need(path: str | Path) -> str:
    """Stripped text of a file that must be there."""
    return Path(path).read_text(encoding="utf-8", errors="replace").strip()


def exists(path: str | Path) -> bool:
    """Something is there, links followed."""
    try:
        os.stat(path)  # noqa: PTH116 - Path.exists hides errors from Python 3.14 on
    except NOT_THERE:
        return False
    return True


def names(directory: str | Path) -> list[str]:
    """Sorted names in a folder, [] where there is no such folder."""
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 - names are all that is wanted
    except NOT_THERE:
        return []
