"""Which release of each Python environment is current, and what it really contains.

What moved since it was sealed is looked at more closely: by whom, and what it breaks. The others
are held to what they were where the current one is not as asked: looking at all files takes long.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from provision.remote import release as sealed
from provision.remote.collectors.reading import NOT_THERE, names, read
from provision.remote.command import Failed, run
from provision.remote.probe import Query

NAME = "environments"
KEYS = ("lock", "python", "files")
SEALED = ("lock", "wheels", "python")
"""What of a manifest is told."""
STORES = ("feed", "locks", "wheels")
"""Folders beside the releases, of what those are made from."""
NOTHING: dict[str, Any] = {
    "release": None,
    "lock": None,
    "wheels": {},
    "python": None,
    "intact": False,
    "changes": [],
    "distributions": {},
    "moved": {},
    "broken": None,
    "proved": {},
    "sizes": {},
}
"""What is current before the first switch."""
NAMED = 20
"""Changed files that are named."""
IMPORT_PATIENCE = 20.0
"""Seconds for one import: within what a collector has."""


def collect(query: Query) -> dict[str, Any]:
    return {
        name: describe(Path(asked["root"]), asked["wanted"])
        for name, asked in query["environments"].items()
    }


def describe(root: Path, wanted: Sequence[str]) -> dict[str, Any] | None:
    """The release that `current` points to, and all that were begun; None where there is none.

    `wanted` is what the current one may be called before its number.
    """
    begun = {name: _sealed_at(root / "releases" / name) for name in names(root / "releases")}
    releases = {name: None if at is None else spelt(at) for name, at in begun.items()}
    link = root / "current"
    if os.path.lexists(link) and not link.is_symlink():
        raise Failed(f"{link} is no link to a release: move it away, it is made anew")
    current = os.readlink(link) if link.is_symlink() else ""  # noqa: PTH115 - as it is written
    there = current.removeprefix("releases/") in begun
    if not there and not releases:
        return None
    found = _release(root / current) if there else NOTHING
    name = str(found["release"])
    as_asked = found["intact"] and name.rpartition("-")[0] in wanted
    older = {
        other: _older(root / "releases" / other, closely=not as_asked)
        for other, at in releases.items()
        if at and other != name
    }
    stored = [f"{kind}/{one}" for kind in STORES for one in names(root / kind)]
    return {**found, "releases": releases, "older": older, "stored": stored}


def _older(folder: Path, *, closely: bool) -> dict[str, Any]:
    manifest = parse_manifest(read(folder / sealed.MANIFEST))
    intact = sealed.intact(sealed.listing(folder)[0], manifest["files"]) if closely else None
    return {**{name: manifest[name] for name in SEALED}, "intact": intact}


def _sealed_at(folder: Path) -> float | None:
    """Seconds since the epoch; None for one that was never finished."""
    try:
        return round((folder / sealed.MANIFEST).stat().st_mtime, 3)
    except NOT_THERE:
        return None


def spelt(at: float) -> str:
    """A time as text that sorts as the time does."""
    seconds, fraction = divmod(at, 1.0)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{fraction * 1000:03.0f}Z"


def _release(folder: Path) -> dict[str, Any]:
    manifest = parse_manifest(read(folder / sealed.MANIFEST))
    site = _site(folder / "lib")
    lines, size = sealed.listing(folder)
    intact = sealed.intact(lines, manifest["files"])
    since = _sealed_at(folder)
    moved = {} if intact or since is None else _moved(site, since)
    return {
        "release": folder.name,
        **{name: manifest[name] for name in SEALED},
        "intact": intact,
        "changes": [] if intact else _changes(folder),
        "distributions": sealed.parse_distributions(os.listdir(site)),  # noqa: PTH208
        "moved": moved,
        "broken": _broken(folder, site) if "numpy" in moved else None,
        "proved": manifest["proved"],
        "sizes": {folder.name: size},
    }


def _site(library: Path) -> Path:
    """The release's site-packages."""
    for name in names(library):
        if name.startswith("python"):
            return library / name / "site-packages"
    raise Failed(f"{library} has no Python")


def _changes(folder: Path) -> list[dict[str, str]]:
    try:
        return sealed.changes(folder)[:NAMED]
    except (*NOT_THERE, ValueError):
        return []


def _moved(site: Path, since: float) -> dict[str, dict[str, Any]]:
    """Distributions that were put there after the release was sealed: by which tool, and when."""
    found = {}
    for folder in site.glob("*.dist-info"):
        at = folder.stat().st_mtime
        if at > since:
            (name,) = sealed.parse_distributions([folder.name])
            found[name] = {"by": read(folder / "INSTALLER") or "unknown", "at": round(at, 3)}
    return found


def _broken(folder: Path, site: Path) -> str | None:
    """What Numba says of the NumPy that came under it, in its own words, and what it takes."""
    metadata = next(iter(site.glob("numba-*.dist-info/METADATA")), None)
    if metadata is None:
        return None
    argv = [str(folder / "bin/python"), "-I", "-c", "import numba"]
    said = run(argv, timeout=IMPORT_PATIENCE)
    if not said.exit or not said.err.strip():
        return None
    window = re.search(r"^Requires-Dist: (numpy\b.*)$", metadata.read_text("utf-8"), re.MULTILINE)
    takes = f"; numba requires {window[1]}" if window else ""
    return said.err.strip().splitlines()[-1] + takes


def parse_manifest(text: str | None) -> dict[str, Any]:
    """The lock's sha256, the Python version, the digest of all files, and the wheels of our own;
    and how many GPUs of each compute capability its CUDA extensions were held to.

    A seal that names no GPUs proves nothing of them. All None where the manifest is gone or
    damaged: the release is then no release of ours.
    """
    try:
        manifest = json.loads(text or "")
        wheels = {str(name): str(sha256) for name, sha256 in manifest["wheels"].items()}
        proved = dict(Counter(map(str, manifest.get("gpus", ()))))
        return {**{name: str(manifest[name]) for name in KEYS}, "wheels": wheels, "proved": proved}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {**dict.fromkeys(KEYS), "wheels": {}, "proved": {}}
