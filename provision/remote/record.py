"""Holds an environment's files to the hashes in its RECORD files."""

from __future__ import annotations

import base64
import csv
import hashlib
from pathlib import Path

CHUNK = 1 << 20
"""Bytes at a time: torch's largest library has a gigabyte."""


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
    actual = hashlib.new(algorithm)
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                actual.update(chunk)
    except FileNotFoundError:
        return "missing"
    if base64.urlsafe_b64encode(actual.digest()).rstrip(b"=").decode() != expected:
        return f"not as recorded ({algorithm})"
    return ""
