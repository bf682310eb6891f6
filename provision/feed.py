"""Fetches what hosts can't fetch for themselves, with pip, which finds the package index."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from provision import TOOL
from provision.errors import ProvisionError
from provision.locking.text import write
from provision.stack import Lock

UV_PLATFORMS = ("manylinux2014_x86_64", "manylinux2014_aarch64")
"""Those that the uv project builds for and our hosts are of; the hash tells which one."""
GLIBC = range(31, 4, -1)
"""Minor versions of glibc 2 that a lock's wheels may ask for: its platform is manylinux_2_31."""
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in GLIBC),
    *("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"),
)


def uv_wheel(version: str, sha256: str) -> bytes:
    """The uv wheel with this hash, from the cache or the package index.

    Raises ProvisionError when the index has no such wheel.
    """
    kept = _cache() / sha256
    if kept.is_file() and _digest(content := kept.read_bytes()) == sha256:
        return content
    with tempfile.TemporaryDirectory() as folder:
        said = [_download(Path(folder), [f"uv=={version}"], [tag]) for tag in UV_PLATFORMS]
        for wheel in Path(folder).glob("*.whl"):
            content = wheel.read_bytes()
            if _digest(content) == sha256:
                kept.parent.mkdir(parents=True, exist_ok=True)
                fresh = kept.with_suffix(f".{os.getpid()}")
                fresh.write_bytes(content)
                fresh.replace(kept)
                return content
    raise ProvisionError(
        f"the package index gives no uv {version} wheel with sha256 {sha256}",
        hint=" / ".join(text for text in said if text) or "the index was tampered with",
    )


def locked_wheels(lock: Lock, python: str) -> Mapping[Path, str]:
    """The files that a lock comes to on x86-64 Linux with this Python: file → sha256.

    pip holds each to the lock's hashes; what was fetched before is taken from the cache.
    Raises ProvisionError with pip's own words when it can't.
    """
    version = ".".join(python.split(".")[:2])
    folder = _cache() / f"{lock.sha256[:12]}-{version}"
    done = folder / "complete"
    for path, digest in _wheels(folder).items():
        if f"sha256:{digest}" not in lock.text:  # the cache was damaged
            path.unlink()
            done.unlink(missing_ok=True)
    if not done.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        locked = folder / "lock.txt"
        # Without markers: pip would hold them to the Python that it runs on.
        pins = [replace(pin, marker="") for pin in lock.pins if pin.applies(python)]
        locked.write_text(write((), pins), encoding="utf-8")
        abi = f"cp{version.replace('.', '')}"
        words = ["--require-hashes", f"--requirement={locked}", f"--python-version={version}"]
        words += ["--implementation=cp", *(f"--abi={one}" for one in (abi, "abi3", "none"))]
        if said := _download(folder, words, PLATFORMS):
            raise ProvisionError(f"the lock's wheels can't be fetched: {said}")
        done.touch()
    return _wheels(folder)


def _wheels(folder: Path) -> dict[Path, str]:
    return {path: _digest(path.read_bytes()) for path in sorted(folder.glob("*.whl"))}


def _download(folder: Path, words: list[str], platforms: tuple[str, ...] | list[str]) -> str:
    """Put wheels into the folder; pip's last words when it can't."""
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    argv += ["--only-binary=:all:", *(f"--platform={tag}" for tag in platforms)]
    argv += [f"--dest={folder}", *words]
    said = subprocess.run(argv, capture_output=True, encoding="utf-8", check=False)
    return said.stderr.strip().splitlines()[-1] if said.returncode else ""


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / TOOL / "wheels"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
