"""Packages that were kept so that a host can go back to them, without any repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from provision.remote.collectors.reading import names
from provision.remote.paths import KEPT
from provision.remote.probe import Query

NAME = "kept"


def collect(_query: Query) -> dict[str, Any]:
    found: dict[str, dict[str, str]] = {}
    whole = [name for name in names(KEPT) if not name.startswith(".")]  # others are being fetched
    for version in whole:
        for name in names(KEPT / version):
            if package := parse_name(name):
                found.setdefault(package[0], {})[package[1]] = str(KEPT / version / name)
    return found


def parse_name(file: str) -> tuple[str, str] | None:
    """Package and version of a .deb, as apt names it; None for anything else."""
    parts = Path(file).stem.split("_")
    if not file.endswith(".deb") or len(parts) != 3:
        return None
    return parts[0], parts[1].replace("%3a", ":")
