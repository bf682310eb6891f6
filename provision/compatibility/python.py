"""Each environment's lock against its stack, and what is in it against itself."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from packaging.version import Version

from provision import tables
from provision.compatibility.row import Row, Unseen, Verdict, judged, unknown
from provision.facts import Facts
from provision.locking.check import stale
from provision.locking.inputs import inputs, meant
from provision.want import Want

NUMBA = Path(__file__).parent / "numba.toml"


def lock(want: Want, facts: Facts | None) -> Iterator[Row]:  # noqa: ARG001 - as every rule
    """The lock is what the stack asks for."""
    for name, locked in want.stack.locks.items():
        asked = inputs(want.stack, name)
        left = f"the stack asks for {', '.join(asked.requirements)}"
        rows = stale(asked, locked.text)
        for row in rows:
            yield Row(
                rule="lock",
                subject=f"lock {name}: {row.asked or row.field}",
                left=f"the stack asks for {row.asked}" if row.asked else left,
                right=f"the lock of environment {name} "
                + (f"has {row.has}" if row.asked else f"is out of date: {row.reason}"),
                verdict=Verdict.VIOLATED,
                source=f"lock {name}",
                reason="installed from it, the environment would not be what the stack says",
                hint=f"invoke lock --stack {want.stack.name} --environment {name}",
            )
        if not rows:
            yield Row(
                rule="lock",
                subject=f"lock {name}",
                left=left,
                right=f"the lock of environment {name} has that in {len(locked.pins)} pins",
                verdict=Verdict.OK,
                source=f"lock {name}",
            )


def series(want: Want, facts: Facts | None) -> Iterator[Row]:  # noqa: ARG001 - as every rule
    """Says where a requirement is read otherwise than to the letter."""
    for name, environment in want.stack.environment.items():
        for text in environment.requirements:
            if meant(text) != text:
                yield Row(
                    rule="numpy.series",
                    subject=f"environment {name}",
                    left=f"environment {name} asks for {text}",
                    right=f"it is read as {meant(text)}",
                    verdict=Verdict.OK,
                    source=f"stack: environment.{name}.requirements",
                    reason="the whole series is meant, as in Numba's own words",
                )


def numba(want: Want, facts: Facts | None) -> Iterator[Row]:  # noqa: ARG001 - as every rule
    """Numba takes the NumPy beside it, for every Python of the lock."""
    for name, environment in want.stack.environment.items():
        versions = [want.stack.locks[name].versions(python) for python in environment.pythons]
        pairs = dict.fromkeys((one.get("numba"), one.get("numpy")) for one in versions)
        for mine, theirs in pairs:
            if mine is not None and theirs is not None:
                yield _numba(name, mine, theirs)


def _numba(environment: str, mine: str, theirs: str) -> Row:
    subject = f"environment {environment}"
    end = windows().get(".".join(mine.split(".")[:2]))
    if end is None:
        why = Unseen(f"numba.toml does not know numba {mine}")
        left = f"environment {environment} has NumPy {theirs}"
        return unknown("numba.numpy", subject, left, why, "numba.toml")
    return judged(
        Version(theirs) < Version(end),
        rule="numba.numpy",
        subject=subject,
        left=f"numba {mine} takes NumPy below {end}",
        right=f"environment {environment} has NumPy {theirs}",
        source="numba.toml",
        reason="Numba refuses it when it is imported",
        hint=f"require numpy<{end} in environment {environment}, and lock again",
    )


@cache
def windows() -> dict[str, str]:
    """Numba's series → the first NumPy that it refuses."""
    return tables.read(NUMBA)
