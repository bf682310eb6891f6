"""TOML files as data; a file may be like another beside it, and state only what differs."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from provision.errors import UsageError, shown


def text(path: Path, *, hint: str = "") -> str:
    """A file's text. Raises UsageError naming the file."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path.name}: can't be read: {error}", hint=hint) from error


def read(path: Path) -> dict[str, Any]:
    """A file's tables. Raises UsageError naming the file, and the line where it is not TOML."""
    try:
        return tomllib.loads(text(path))
    except RecursionError as error:
        raise UsageError(f"{path.name}: it is nested too deeply") from error
    except ValueError as error:  # also a number of more than 4300 digits
        raise UsageError(f"{path.name}: {error}") from error


def whole(path: Path, among: Collection[str], kind: str) -> dict[str, Any]:
    """A file's tables; with `like = "OTHER"` joined to those of OTHER, one of `among`.

    A file that others are like is like none itself: what stands where is seen in two files.

    Raises UsageError naming the file, and the field where `like` names no whole `kind`.
    """
    data = read(path)
    like = data.pop("like", None)
    if like is None:
        return data
    if like not in among or "like" in (base := read(path.with_name(f"{like}.toml"))):
        known = ", ".join(sorted({*among} - {path.stem}))
        raise UsageError(
            f"{path.name}: like: expected the name of a whole {kind}, got {shown(like)}",
            hint=f"beside it: {known or 'none'}",
        )
    return joined(base, data)


def joined(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Tables are joined field by field; everything else is replaced."""
    both = {
        key: joined(base[key], value)
        for key, value in over.items()
        if isinstance(value, dict) and isinstance(base.get(key), dict)
    }
    return base | over | both
