"""Releases of an environment. Not a resource: which of them fits, which stay, and what goes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from provision.facts import Environment as There
from provision.facts import Sealed
from provision.plan import Discard
from provision.stack import Lock

KEPT = 3
"""Sealed releases that stay: the current one, and two to go back to."""


def unfit(sealed: There | Sealed, lock: Lock, joined: dict[str, str], python: str) -> str:
    """Why a release is another one than that of this lock, these wheels and this Python, or ''."""
    if sealed.lock is None:
        return "its manifest is gone or damaged"
    if sealed.lock != lock.sha256:
        return "the lock has changed"
    if sealed.python is None or _minor(sealed.python) != _minor(python):
        return f"it is for Python {sealed.python}, the host now has {python}"
    had = {name: sha256 for name, sha256 in sealed.wheels.items() if sha256}
    if had != joined:
        names = sorted({name for name, _ in had.items() ^ joined.items()})
        return f"a wheel of ours was built or taken away: {', '.join(names)}"
    return ""


def _minor(python: str) -> list[str]:
    return python.split(".")[:2]


def ready(there: There, lock: Lock, joined: dict[str, str], python: str) -> str | None:
    """The release that was sealed last of those that are as wanted and intact, but not current."""
    found = [
        (at, name)
        for name, at in there.releases.items()
        if at
        and (sealed := there.older.get(name))
        and sealed.intact
        and not unfit(sealed, lock, joined, python)
    ]
    return max(found)[1] if found else None


def fresh(there: There | None, identity: str) -> str:
    """A name that no release has had yet, made or only begun."""
    mine = re.compile(rf"{identity}-([0-9]{{1,9}})")
    past = there.releases if there else {}
    numbers = [int(found[1]) for one in past if (found := mine.fullmatch(one))]
    return f"{identity}-{max(numbers, default=0) + 1}"


def leftovers(there: There | None, release: str) -> tuple[list[str], list[str]]:
    """Releases that were begun and never sealed, and sealed ones beyond those that are kept.

    Neither the current one nor `release`, which comes after it, is among them.
    """
    past = dict(there.releases) if there else {}
    current = there.release if there else None
    others = {name: at for name, at in past.items() if name not in (current, release)}
    sealed = sorted((at, name) for name, at in others.items() if at)
    kept = KEPT - 2 if current else KEPT - 1
    old = [name for _, name in sealed[: max(0, len(sealed) - kept)]]
    return [name for name, at in others.items() if at is None], old


def made_from(lock: str, wheels: Iterable[str | None], *, feed: bool) -> set[str]:
    """What a release of a lock and wheels of our own (sha256) is made from, as facts name it."""
    names = {f"locks/{lock[:12]}.txt", *(f"wheels/{wheel[:12]}" for wheel in wheels if wheel)}
    return names | {f"feed/{lock[:12]}"} if feed else names


def needless(there: There | None, needed: set[str], gone: list[str]) -> list[str]:
    """What lies beside them that neither the next release needs nor one that stays."""
    if there is None:
        return []
    stay: list[There | Sealed] = [there]
    stay += [one for name, one in there.older.items() if name not in gone]
    for one in stay:
        if one.lock:
            needed = needed | made_from(one.lock, one.wheels.values(), feed=True)
    return sorted(set(there.stored) - needed)


def discard(root: str, names: list[str], beside: Iterable[str] = ()) -> tuple[Discard, ...]:
    """The action that removes releases and what lies beside them, if there is any of it."""
    paths = tuple(f"{root}/releases/{name}" for name in sorted(names))
    more = tuple(f"{root}/{one}" for one in beside)
    return (Discard(releases=paths, beside=more),) if paths or more else ()
