"""Writes into a built wheel's metadata which exact versions it was built against.

Without that an installer is free to move torch under it.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from provision.remote.command import Failed

REQUIRES = re.compile(r"^Requires-Dist: *([A-Za-z0-9][A-Za-z0-9._-]*)", re.IGNORECASE)
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of the files that are written: the same wheel, the same bytes."""


def pin(wheel: Path, pins: Mapping[str, str]) -> None:
    """Make a wheel require exactly these versions (normalised name → version), in place.

    Raises Failed when it is no wheel.
    """
    fresh = wheel.with_suffix(".pinned")
    try:
        with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(fresh, "w") as new:
            metadata, record = _named(old, "METADATA"), _named(old, "RECORD")
            changed = pinned(old.read(metadata).decode(), pins).encode()
            for entry in old.infolist():
                if entry.filename == metadata:
                    new.writestr(_entry(metadata), changed)
                elif entry.filename != record:
                    new.writestr(entry, old.read(entry))
            rows = recorded(old.read(record).decode(), metadata, changed)
            new.writestr(_entry(record), rows)
    except (OSError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        fresh.unlink(missing_ok=True)
        raise Failed(f"{wheel.name} is no wheel: {error}") from error
    fresh.replace(wheel)


def pinned(metadata: str, pins: Mapping[str, str]) -> str:
    """METADATA with `Requires-Dist: NAME==VERSION` in place of what it says of those names."""
    head, blank, body = metadata.partition("\n\n")
    lines = [line for line in head.splitlines() if _requires(line) not in pins]
    lines += [f"Requires-Dist: {name}=={version}" for name, version in sorted(pins.items())]
    return "\n".join(lines) + (blank or "\n") + body


def requires(metadata: str) -> list[str]:
    """Its requirements."""
    head = metadata.partition("\n\n")[0]
    return [line.partition(":")[2].strip() for line in head.splitlines() if _requires(line)]


def field(metadata: str, name: str) -> str:
    """A field's value; '' where there is none."""
    match = re.search(rf"^{name}: *(.*)$", metadata.partition("\n\n")[0], re.MULTILINE)
    return match[1].strip() if match else ""


def recorded(record: str, path: str, content: bytes) -> str:
    """RECORD with another content's hash and size for one file."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    rows = [
        [path, f"sha256={digest}", str(len(content))] if row[0] == path else row
        for row in csv.reader(io.StringIO(record))
        if row
    ]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _requires(line: str) -> str | None:
    match = REQUIRES.match(line)
    return re.sub(r"[-_.]+", "-", match[1]).lower() if match else None


def _named(files: zipfile.ZipFile, name: str) -> str:
    found: Iterable[str] = (n for n in files.namelist() if n.endswith(f".dist-info/{name}"))
    for path in found:
        if path.count("/") == 1:
            return path
    raise zipfile.BadZipFile(f"it has no {name}")


def _entry(path: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(path, EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry
