"""A release of an environment: sealed when it is finished, and held to what it was then."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from provision.remote.command import Failed
from provision.remote.paths import TOOL, replace

MANIFEST = f"{TOOL}.json"
FILES = f"{TOOL}.files"
"""A line per file with its size and time of change: read only when their digest differs."""
GUARDS = ("pip", "pip3")
GUARD = f"""\
#!/bin/sh
echo "this environment is sealed by {TOOL}: nothing is installed beside its lock." >&2
echo "Change the stack and its lock, then provision the host." >&2
exit 1
"""
"""Stands where pip would: a release has none. What uv or a copied pip does is found as drift."""


def seal(release: Path, about: Mapping[str, Any]) -> None:
    """Write down what the release is and what its files are now: only then is it finished."""
    for name in GUARDS:
        replace(release / "bin" / name, GUARD.encode(), 0o755)
    lines, _ = listing(release)
    replace(release / FILES, lines.encode("utf-8", "surrogateescape"), 0o644)
    manifest = json.dumps({**about, "files": _digest(lines)})
    replace(release / MANIFEST, manifest.encode(), 0o644)


def listing(release: Path) -> tuple[str, int]:
    """Every file's path, size and time of change, a line each; and the bytes of them all.

    Cheap to take, at every probe. What Python itself writes later (__pycache__) and our own two
    files do not count.
    """
    rows = list(_rows(str(release), ""))
    return "".join(sorted(line for line, _ in rows)), sum(size for _, size in rows)


def intact(lines: str, digest: str | None) -> bool:
    """Every file is as it was when the release with this listing was sealed."""
    return _digest(lines) == digest


def changes(release: Path) -> list[dict[str, str]]:
    """What differs from the sealed files: path and what became of it."""
    before = _parsed((release / FILES).read_bytes().decode("utf-8", "surrogateescape"))
    now = _parsed(listing(release)[0])
    return [
        {"path": path.lstrip("/"), "what": _what(before.get(path), now.get(path))}
        for path in sorted(before.keys() | now.keys())
        if before.get(path) != now.get(path)
    ]


def parse_distributions(entries: Iterable[str]) -> dict[str, str]:
    """Normalised name (PEP 503) → version, from names such as 'torch-2.9.1+cu130.dist-info'."""
    found: dict[str, str] = {}
    for folder in sorted(name for name in entries if name.endswith(".dist-info")):
        name, _, version = folder.removesuffix(".dist-info").rpartition("-")
        normal = re.sub(r"[-_.]+", "-", name).lower()
        if not name or normal in found:
            raise Failed(f"{folder} is damaged or a second version of the same distribution")
        found[normal] = version
    return found


def users(folder: str) -> list[str]:
    """Processes that have files of a release mapped, or were started from it: name and pid."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        process = Path("/proc") / pid
        try:
            seen = (process / "cmdline").read_bytes() + (process / "maps").read_bytes()
            if f"{folder}/".encode() in seen:
                name = (process / "comm").read_text(errors="replace", encoding="utf-8").strip()
                found.append(f"{name} (pid {pid})")
        except OSError:
            continue
    return found


def _what(before: str | None, now: str | None) -> str:
    return "added" if before is None else "removed" if now is None else "changed"


def _parsed(lines: str) -> dict[str, str]:
    return dict(line.split("\t", 1) for line in lines.split("\n") if "\t" in line)


def _digest(lines: str) -> str:
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def _rows(folder: str, below: str) -> Iterator[tuple[str, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{below}/{entry.name}"
            if entry.is_symlink():
                yield f"{path}\t-> {os.readlink(entry.path)}\n", 0  # noqa: PTH115 - quick
            elif entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _rows(entry.path, path)
            elif path not in (f"/{MANIFEST}", f"/{FILES}"):
                stat = entry.stat()
                yield f"{path}\t{stat.st_size} {stat.st_mtime_ns}\n", stat.st_size
