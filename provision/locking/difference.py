"""How two locks differ: in versions, and in the files behind the same version."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from provision.locking.text import Pin


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """A distribution whose versions differ."""

    name: str
    before: str | None
    after: str | None

    @property
    def line(self) -> str:
        """In words."""
        if self.before is None:
            return f"{self.name} {self.after} is added"
        if self.after is None:
            return f"{self.name} {self.before} is removed"
        return f"{self.name} {self.before} → {self.after}"


def moves(before: Iterable[Pin], after: Iterable[Pin]) -> list[Move]:
    """What is added, removed and moved, by name."""
    old, new = _spelled(before), _spelled(after)
    return [
        Move(name=name, before=old.get(name), after=new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def rehashed(before: Iterable[Pin], after: Iterable[Pin]) -> list[str]:
    """Distributions of which a version now has other files: uploaded later, or taken back."""
    old, new = ({(pin.name, pin.version): pin.hashes for pin in pins} for pins in (before, after))
    return sorted({row[0] for row in old.keys() & new.keys() if set(old[row]) != set(new[row])})


def _spelled(pins: Iterable[Pin]) -> dict[str, str]:
    rows = defaultdict(list)
    for pin in pins:
        rows[pin.name].append(pin.spelled)
    return {name: ", ".join(row) for name, row in rows.items()}
