"""Holds an environment's files to the hashes in its RECORD files, and tells when they change."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from provision.remote.paths import MANIFEST


def faults(site: Path) -> list[str]:
    """Files of a site-packages folder that are missing or not as recorded."""
    found = []
    for record in sorted(site.glob("*.dist-info/RECORD")):
        with record.open(newline="", encoding="utf-8") as file:
            for path, digest, _size in csv.reader(file):
                if digest and (fault := _fault(site / path, digest)):
                    found.append(f"{path}: {fault}")
    return found


def _fault(path: Path, digest: str) -> str:
    algorithm, _, expected = digest.partition("=")
    try:
        actual = hashlib.new(algorithm, path.read_bytes()).digest()
    except FileNotFoundError:
        return "missing"
    if base64.urlsafe_b64encode(actual).rstrip(b"=").decode() != expected:
        return f"not as recorded ({algorithm})"
    return ""


def stamp(release: Path) -> str:
    """A digest of every file's path, size and time of change: cheap to take, at every probe.

    What Python itself writes later (__pycache__) and our own manifest do not count.
    """
    digest = hashlib.sha256()
    for line in sorted(_lines(str(release), "")):
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _lines(folder: str, below: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{below}/{entry.name}"
            if entry.is_symlink():
                yield f"{path} -> {os.readlink(entry.path)}\n"  # noqa: PTH115 - quick on purpose
            elif entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _lines(entry.path, path)
            elif path != f"/{MANIFEST}":
                stat = entry.stat()
                yield f"{path} {stat.st_size} {stat.st_mtime_ns}\n"
