"""Which release of each Python environment is current, and what it really contains."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from provision.remote import record
from provision.remote.collectors.reading import NOT_THERE, names, read
from provision.remote.command import Failed
from provision.remote.paths import MANIFEST
from provision.remote.probe import Query

NAME = "environments"
KEYS = ("lock", "python", "files")
NOTHING: dict[str, Any] = {
    "release": None,
    "lock": None,
    "python": None,
    "intact": False,
    "distributions": {},
}
"""What is current before the first switch."""


def collect(query: Query) -> dict[str, Any]:
    return {name: describe(Path(root)) for name, root in query["environments"].items()}


def describe(root: Path) -> dict[str, Any] | None:
    """The release that `current` points to, and all that were begun; None where there is none."""
    releases = names(root / "releases")
    try:
        current = (root / "current").readlink()
    except NOT_THERE:
        return {**NOTHING, "releases": releases} if releases else None
    return {**_release(root / current), "releases": releases}


def _release(release: Path) -> dict[str, Any]:
    manifest = parse_manifest(read(release / MANIFEST))
    return {
        "release": release.name,
        "lock": manifest["lock"],
        "python": manifest["python"],
        "intact": manifest["files"] == record.stamp(release),
        "distributions": parse_distributions(_packages(release / "lib")),
    }


def _packages(library: Path) -> list[str]:
    """What lies in the release's site-packages."""
    folders = [library / name / "site-packages" for name in names(library) if "python" in name]
    if not folders:
        raise Failed(f"{library} has no Python")
    return [name for folder in folders for name in os.listdir(folder)]  # noqa: PTH208


def parse_manifest(text: str | None) -> dict[str, str | None]:
    """The lock's sha256, the Python version, and the stamp of all files.

    All None where the manifest is gone or damaged: the release is then no release of ours.
    """
    try:
        manifest = json.loads(text or "")
        return {name: str(manifest[name]) for name in KEYS}
    except (ValueError, KeyError, TypeError):
        return dict.fromkeys(KEYS)


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
