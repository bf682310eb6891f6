"""A recipe's code: an sdist from the package index, by hash, or a folder beside the recipe."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import tarfile
import tempfile
import tomllib
import urllib.error
import urllib.request
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from uv import find_uv_bin

from provision import TOOL
from provision.errors import ProvisionError, UsageError
from wheels.recipe import FOLDER, Recipe

LIMIT = 1 << 30
"""Bytes that an sdist may have."""
SKIPPED = {"__pycache__", "build"}
"""Folders that work on the code leaves behind."""


def fetch(recipe: Recipe) -> bytes:
    """The code as a .tar.gz with one folder in it; the same bytes each time.

    Raises UsageError where the recipe's folder is not there, ProvisionError when the index does
    not give what its hash names.
    """
    if name := recipe.source.folder:
        folder = FOLDER / name
        if not folder.is_dir():
            what = f"{recipe.name}.toml: source.folder: there is no folder {name!r}"
            raise UsageError(f"{what} in wheels/recipes")
        return _packed(folder, f"{recipe.name}-{recipe.version}")
    digest = recipe.source.sdist or ""
    kept = _cache() / f"{digest}.tar.gz"
    if kept.is_file() and _sha256(content := kept.read_bytes()) == digest:
        return content
    content = _download(recipe)
    if _sha256(content) != digest:
        raise ProvisionError(
            f"{recipe.wheel} {recipe.version}: the index's sdist has sha256 {_sha256(content)}, "
            f"the recipe says {digest}"
        )
    kept.parent.mkdir(parents=True, exist_ok=True)
    fresh = kept.with_suffix(f".{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(kept)
    return content


def units(content: bytes, patterns: Sequence[str]) -> list[str]:
    """Names of the files that are compiled, by patterns on their path within the one folder."""
    with tarfile.open(fileobj=io.BytesIO(content)) as files:
        paths = [member.name.partition("/")[2] for member in files if member.isreg()]
    found = {p for p in paths for pattern in patterns if fnmatchcase(p, pattern)}
    return sorted(path.rpartition("/")[2] for path in found)


def _download(recipe: Recipe) -> bytes:
    url = _address(recipe)
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - uv found it
            return bytes(answer.read(LIMIT))
    except (urllib.error.URLError, OSError) as error:
        raise ProvisionError(
            f"the sdist of {recipe.wheel} {recipe.version} can't be fetched: {error}"
        ) from error


def _address(recipe: Recipe) -> str:
    """Where the index has the sdist: uv knows the index, and writes it into a pylock (PEP 751).

    pip's download would run the sdist's setup.py, which wants torch.
    """
    wanted = f"{recipe.wheel}=={recipe.version}"
    with tempfile.TemporaryDirectory() as name:
        lock = Path(name) / "pylock.toml"
        argv = [find_uv_bin(), "pip", "compile", "-", "--no-deps", "--format", "pylock.toml"]
        argv += ["--no-header", "--quiet", "--color", "never", "--output-file", str(lock)]
        said = subprocess.run(
            argv, input=wanted, cwd=name, capture_output=True, encoding="utf-8", check=False
        )
        if said.returncode:
            last = (said.stderr.strip().splitlines() or ["uv gave no reason"])[-1]
            raise ProvisionError(f"{wanted} is not found in the package index: {last.strip()}")
        packages = tomllib.loads(lock.read_text(encoding="utf-8"))["packages"]
    try:
        return str(packages[0]["sdist"]["url"])
    except (LookupError, TypeError) as error:
        raise ProvisionError(f"the package index has no sdist of {wanted}") from error


def _packed(folder: Path, name: str) -> bytes:
    """A folder of ours as an sdist; owners and times left out."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as files:
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if path.is_file() and not SKIPPED & set(inside.parts):
                entry = tarfile.TarInfo(f"{name}/{inside}")
                entry.size, entry.mode = path.stat().st_size, 0o644
                files.addfile(entry, io.BytesIO(path.read_bytes()))
    return gzip.compress(buffer.getvalue(), mtime=0)


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / TOOL / "sources"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
