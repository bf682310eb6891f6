"""A lock's text: hashed pins as uv and pip read them, without URLs and options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from packaging.markers import InvalidMarker, Marker
from packaging.utils import canonicalize_name
from packaging.version import Version

from provision.errors import shown

HASH = "--hash="
PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9.!+_-]+)")
"""What uv would take for an option, an address or a file is none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """One row: a distribution at one version."""

    name: str
    """Normalised."""
    version: str
    hashes: tuple[str, ...] = ()
    """Of all its files, such as sha256:…"""
    marker: str = ""
    """For which Pythons; '' for all."""

    @property
    def spelled(self) -> str:
        """The version, and for which Pythons."""
        return f"{self.version} ; {self.marker}" if self.marker else self.version

    def applies(self, python: str) -> bool:
        """It is for this Python, such as 3.11.2."""
        if not self.marker:
            return True
        minor = ".".join(python.split(".")[:2])
        seen = {"python_version": minor, "python_full_version": python}
        return Marker(self.marker).evaluate(seen)


@lru_cache(maxsize=16)  # a plan reads the same locks several times
def read(text: str) -> tuple[Pin, ...]:
    """All pins. Raises ValueError naming the line that is neither a pin nor a comment."""
    return tuple(_pin(number, line) for number, line in _lines(text))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Logical lines, each with the number of its first."""
    start = 1
    parts: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        start = start if parts else number
        parts.append(line.removesuffix("\\").strip())
        if line.endswith("\\"):
            continue
        whole = " ".join(parts)
        parts = []
        if whole and not whole.startswith("#"):
            yield start, whole


def _pin(number: int, line: str) -> Pin:
    head, *hashes = line.split(f" {HASH}")
    what, _, marker = head.partition(";")
    pin = PIN.fullmatch(what.strip())
    if not pin:
        raise ValueError(f"line {number}: expected NAME==VERSION and hashes, got {shown(head)}")
    try:
        Version(pin[2])
    except ValueError as error:
        raise ValueError(f"line {number}: {pin[2]!r} is no version") from error
    try:
        marker = str(Marker(marker)) if marker.strip() else ""
    except InvalidMarker as error:
        raise ValueError(f"line {number}: {marker.strip()!r} is no marker") from error
    return Pin(
        name=canonicalize_name(pin[1]),
        version=pin[2],
        hashes=tuple(one.strip() for one in hashes),
        marker=marker,
    )


def write(header: Iterable[str], pins: Iterable[Pin]) -> str:
    """The text of a lock, its header as comments."""
    lines = [f"# {line}" for line in header]
    for pin in pins:
        hashes = (f"    {HASH}{one}" for one in pin.hashes)
        lines.append(" \\\n".join([f"{pin.name}=={pin.spelled}", *hashes]))
    return "\n".join(lines) + "\n"
