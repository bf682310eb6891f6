"""What a lock is made of: said in its header, and held against the stack."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import date

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from provision.locking.wheels import built_for
from provision.stack import Stack

ARCH = "x86_64"
"""The one that locks are made for."""
SEPARATOR = ", "
"""Between requirements in a lock's header."""
TITLE = "Made by `invoke lock` from its stack: change that, and lock again."


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """One environment of a stack, as uv is asked for it."""

    requirements: tuple[str, ...]
    python: str
    pythons: tuple[str, ...]
    """The least Python of every minor version in that range."""
    platform: str
    date: date
    """The index is read as of the end of this day, UTC."""
    needed_by: tuple[tuple[str, str], ...] = ()
    """Requirements that a wheel of our own brings, each with that wheel."""

    @property
    def words(self) -> dict[str, str]:
        """Field → what the header says of it."""
        return {
            "requirements": SEPARATOR.join(self.requirements),
            "python": self.python,
            "platform": f"{ARCH} {self.platform}",
            "date": self.date.isoformat(),
        }

    @property
    def digest(self) -> str:
        """Of all fields: a header that was changed by hand does not match it."""
        return hashlib.sha256(json.dumps(self.words).encode()).hexdigest()

    @property
    def header(self) -> list[str]:
        """The lock's first lines."""
        rows = {**self.words, "digest": self.digest}
        return [TITLE, *(f"{name}: {value}" for name, value in rows.items())]


def inputs(stack: Stack, environment: str) -> Inputs:
    """What the lock of a stack's environment is made of."""
    wanted = stack.environment[environment]
    built = {wheel: built_for(wheel) for wheel in wanted.wheels}
    needed_by = tuple((f"torch=={b.torch}", wheel) for wheel, b in built.items() if b)
    asked = [*map(meant, wanted.requirements), *(needed for needed, _ in needed_by)]
    return Inputs(
        requirements=tuple(dict.fromkeys(asked)),
        python=wanted.python,
        pythons=wanted.pythons,
        platform=wanted.platform,
        date=stack.date,
        needed_by=needed_by,
    )


def header(text: str) -> dict[str, str]:
    """Field → value, as a lock's first lines say them."""
    lines = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]
    rows = (line.partition(": ") for line in lines)
    return {name: value for name, found, value in rows if found}


def meant(requirement: str) -> str:
    """`numpy<=2.2` is the 2.2 series, as where Numba says "needs NumPy 2.2 or less".

    To the letter (PEP 440) 2.2.6 is more than 2.2, and of the series 2.2.0 alone would be left.
    """
    wanted = Requirement(requirement)
    if canonicalize_name(wanted.name) != "numpy":
        return requirement
    series = [
        f"<{version.major}.{version.minor + 1}"
        if one.operator == "<=" and len((version := Version(one.version)).release) == 2
        else str(one)
        for one in wanted.specifier
    ]
    if set(series) == {str(one) for one in wanted.specifier}:
        return requirement
    wanted.specifier = SpecifierSet(",".join(series))
    return str(wanted)
