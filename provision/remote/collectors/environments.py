"""Which release of each Python environment is current, and what it really contains."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from provision.remote.collectors.reading import NOT_THERE, names, need
from provision.remote.command import Failed
from provision.remote.paths import MANIFEST
from provision.remote.probe import Query

NAME = "environments"
NOTHING: dict[str, Any] = {"release": None, "lock": None, "python": None, "distributions": {}}
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
    return {
        "release": release.name,
        **parse_manifest(need(release / MANIFEST)),
        "distributions": parse_distributions(_packages(release / "lib")),
    }


def _packages(library: Path) -> list[str]:
    """What lies in the release's site-packages."""
    folders = [library / name / "site-packages" for name in names(library) if "python" in name]
    if not folders:
        raise Failed(f"{library} has no Python")
    return [name for folder in folders for name in os.listdir(folder)]  # noqa: PTH208


def parse_manifest(text: str) -> dict[str, str]:
    """The lock's sha256 and the Python version."""
    manifest = json.loads(text)
    if missing := [name for name in ("lock", "python") if name not in manifest]:
        raise Failed(f"{MANIFEST} lacks {' and '.join(missing)}")
    return {"lock": manifest["lock"], "python": manifest["python"]}


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
