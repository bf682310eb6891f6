"""The resolutions of several Pythons → one lock: a plain row where all agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from provision.locking.text import Pin


def merge(found: Mapping[str, Iterable[Pin]]) -> list[Pin]:
    """Rows by name; `found` holds what uv resolved for each Python."""
    pythons = sorted({minor(python) for python in found}, key=_order)
    where: dict[tuple[str, str], set[str]] = defaultdict(set)
    hashes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for python, pins in found.items():
        for pin in pins:
            where[pin.name, pin.version].add(minor(python))
            hashes[pin.name, pin.version].update(pin.hashes)
    rows = sorted(where, key=lambda row: (row[0], min(map(_order, where[row]))))
    return [
        Pin(
            name=name,
            version=version,
            hashes=tuple(sorted(hashes[name, version])),
            marker=marker(where[name, version], pythons),
        )
        for name, version in rows
    ]


def marker(some: set[str], pythons: Sequence[str]) -> str:
    """What tells some Pythons from all, in the order of `pythons`; '' for all of them."""
    row = [python for python in pythons if python in some]
    count = len(row)
    if count == len(pythons):
        return ""
    if count > 1 and row == list(pythons[:count]):
        return f'python_version <= "{row[-1]}"'
    if count > 1 and row == list(pythons[-count:]):
        return f'python_version >= "{row[0]}"'
    return " or ".join(f'python_version == "{python}"' for python in row)


def minor(python: str) -> str:
    """3.11 of 3.11.2."""
    return ".".join(python.split(".")[:2])


def _order(python: str) -> tuple[int, ...]:
    return tuple(int(part) for part in python.split("."))
