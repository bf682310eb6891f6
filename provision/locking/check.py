"""Is a lock still what its stack asks for? Offline: its text alone is read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provision.locking.inputs import Inputs, header
from provision.locking.merge import minor
from provision.locking.text import Pin, read

HASH = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stale:
    """Why a lock must be made anew: which field, and how it moved."""

    field: str
    reason: str


@lru_cache(maxsize=16)  # a plan asks several times
def stale(inputs: Inputs, text: str) -> tuple[Stale, ...]:
    """All that keeps a lock from being its stack's; () when nothing does."""
    try:
        pins = read(text)
    except ValueError as error:
        return (Stale(field="text", reason=str(error)),)
    return (
        *_moved(inputs, text),
        *_unsafe(text, pins),
        *_unsatisfied(inputs, pins),
        *_idle(inputs, pins),
    )


def _moved(inputs: Inputs, text: str) -> Iterator[Stale]:
    said = header(text)
    for name, now in inputs.words.items():
        if said.get(name) != now:
            then = repr(said[name]) if name in said else "what its header does not say"
            reason = f"locked for {then}, the stack says {now!r}"
            yield Stale(field=name, reason=reason)
    if said.get("digest") != inputs.digest:
        yield Stale(field="digest", reason="it is not that of the stack's fields")


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
    for (field, what), pythons in wrong.items():
        yield Stale(field=field, reason=f"{what} for Python {', '.join(pythons)}")


def _wrong_for(python: str, inputs: Inputs, pins: Sequence[Pin]) -> Iterator[tuple[str, str]]:
    rows = [pin for pin in pins if pin.applies(python)]
    versions = {pin.name: pin.version for pin in rows}
    environment = {"python_version": minor(python), "python_full_version": python}
    for text in inputs.requirements:
        wanted = Requirement(text)
        if wanted.marker and not wanted.marker.evaluate(environment):
            continue
        have = versions.get(canonicalize_name(wanted.name))
        if have is None or not wanted.specifier.contains(have, prereleases=True):
            yield "requirements", f"{text!r} is asked for, the lock has {have or 'nothing'}"
    for name, count in Counter(pin.name for pin in rows).items():
        if count > 1:
            yield "pins", f"{name} stands there {count} times"


def _idle(inputs: Inputs, pins: Sequence[Pin]) -> Iterator[Stale]:
    for pin in pins:
        if not any(pin.applies(python) for python in inputs.pythons):
            reason = f"{pin.name} {pin.spelled} is for no Python of {inputs.python}"
            yield Stale(field="python", reason=reason)
