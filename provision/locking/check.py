"""Is a lock still what its stack asks for? Offline: its text alone is read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provision.locking.inputs import SEPARATOR, Inputs, header
from provision.locking.merge import minor
from provision.locking.text import Pin, read

HASH = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stale:
    """Why a lock must be made anew: which field, and how it moved."""

    field: str
    reason: str
    asked: str = ""
    """The one requirement that it is about, if it is about one."""
    has: str = ""
    """What the lock has of that."""


@lru_cache(maxsize=16)  # a plan asks several times
def stale(inputs: Inputs, text: str) -> tuple[Stale, ...]:
    """All that keeps a lock from being its stack's; () when nothing does."""
    try:
        pins = read(text)
    except ValueError as error:
        return (Stale(field="text", reason=str(error)),)
    unsatisfied = tuple(_unsatisfied(inputs, pins))
    named = {row.field for row in unsatisfied}
    return (
        *(row for row in _moved(inputs, text) if row.field not in named),
        *_unsafe(text, pins),
        *unsatisfied,
        *_idle(inputs, pins),
    )


def _moved(inputs: Inputs, text: str) -> Iterator[Stale]:
    said = header(text)
    moved = [name for name, now in inputs.words.items() if said.get(name) != now]
    for name in moved:
        yield Stale(field=name, reason=_difference(said.get(name), inputs.words[name]))
    if not moved and said.get("digest") != inputs.digest:
        yield Stale(field="digest", reason="it is not that of the stack's fields")


def _difference(then: str | None, now: str) -> str:
    """What a lock was made for and what it should be, without what both of two lists have."""
    if then is None:
        return f"its header does not say for what it was locked, the stack says {now!r}"
    old, new = then.split(SEPARATOR), now.split(SEPARATOR)
    gone = SEPARATOR.join(one for one in old if one not in new)
    come = SEPARATOR.join(one for one in new if one not in old)
    if not (gone and come):
        gone, come = then, now
    return f"locked for {gone!r}, the stack says {come!r}"


def _unsafe(text: str, pins: Sequence[Pin]) -> Iterator[Stale]:
    if "://" in text:
        yield Stale(field="text", reason="it names an address; a lock holds pins and hashes alone")
    for pin in pins:
        if not pin.hashes or not all(HASH.fullmatch(one) for one in pin.hashes):
            yield Stale(field="hashes", reason=f"{pin.name}=={pin.version} is not held by sha256")


def _unsatisfied(inputs: Inputs, pins: Sequence[Pin]) -> Iterator[Stale]:
    """What is wrong for some Pythons: each thing once, with those that it is wrong for."""
    wrong: dict[tuple[str, str], list[str]] = {}
    for python in inputs.pythons:
        for row in _wrong_for(python, inputs, pins):
            wrong.setdefault(row, []).append(minor(python))
    for (asked, what), pythons in wrong.items():
        has = f"{what} for Python {', '.join(pythons)}"
        if asked:
            reason = f"{asked!r} is asked for, the lock has {has}"
            yield Stale(field="requirements", reason=reason, asked=asked, has=has)
        else:
            yield Stale(field="pins", reason=has)


def _wrong_for(python: str, inputs: Inputs, pins: Sequence[Pin]) -> Iterator[tuple[str, str]]:
    """A requirement and the version that does not satisfy it; '' and what stands there twice."""
    rows = [pin for pin in pins if pin.applies(python)]
    versions = {pin.name: pin.version for pin in rows}
    environment = {"python_version": minor(python), "python_full_version": python}
    for text in inputs.requirements:
        wanted = Requirement(text)
        if wanted.marker and not wanted.marker.evaluate(environment):
            continue
        have = versions.get(canonicalize_name(wanted.name))
        if have is None or not wanted.specifier.contains(have, prereleases=True):
            yield text, have or "nothing"
    for name, count in Counter(pin.name for pin in rows).items():
        if count > 1:
            yield "", f"{name} stands there {count} times"


def _idle(inputs: Inputs, pins: Sequence[Pin]) -> Iterator[Stale]:
    for pin in pins:
        if not any(pin.applies(python) for python in inputs.pythons):
            reason = f"{pin.name} {pin.spelled} is for no Python of {inputs.python}"
            yield Stale(field="python", reason=reason)
