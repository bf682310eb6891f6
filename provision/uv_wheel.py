"""Fetches the uv wheel that hosts get, with pip, which finds the package index by itself."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from provision import TOOL
from provision.errors import ProvisionError

PLATFORMS = ("manylinux2014_x86_64", "manylinux2014_aarch64")
"""Those that the uv project builds for and our hosts are of; the hash tells which one."""


def uv_wheel(version: str, sha256: str) -> bytes:
    """The wheel with this hash, from the cache or the package index.

    Raises ProvisionError when the index has no such wheel.
    """
    kept = _cache() / sha256
    if kept.is_file() and _digest(content := kept.read_bytes()) == sha256:
        return content
    with tempfile.TemporaryDirectory() as folder:
        said = [_download(version, platform, Path(folder)) for platform in PLATFORMS]
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


def _download(version: str, platform: str, folder: Path) -> str:
    """Put the platform's wheel into the folder; pip's last words when it can't."""
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    argv += ["--only-binary=:all:", f"--platform={platform}", f"--dest={folder}", f"uv=={version}"]
    said = subprocess.run(argv, capture_output=True, text=True, check=False)
    return said.stderr.strip().splitlines()[-1] if said.returncode else ""


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / TOOL / "wheels"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
