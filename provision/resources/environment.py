"""Python environments: releases made beside the current one. Reads os, environments.

A release is made whole, held to its lock, and switched to by one rename; what drifted is mended
by a new release, never in place.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provision import TOOL
from provision.compatibility import seen
from provision.compatibility.row import Unseen
from provision.facts import Environment as There
from provision.facts import Facts
from provision.plan import Action, Change, Discard, Feed, Place, Run, Seal, Stage, Switch, Write
from provision.promises import UNSEEN
from provision.resources import site, uv
from provision.resources.known import known
from provision.stack import Environment, Lock
from provision.want import Want
from provision.wheelhouse import Manifest, Suits, Unfit, fitting

NAME = "environment"
STAGE = Stage.RUNTIME
ROOT = f"/opt/{TOOL}/environments"
INTERPRETER = "/usr/bin/python3"
"""The system's own: uv's Pythons come from a download site that many hosts can't reach, and the
system's headers (python3-dev) fit no other."""
ENV = {
    "UV_CACHE_DIR": f"/var/cache/{TOOL}/uv",
    "UV_LINK_MODE": "copy",
    "UV_NO_PROGRESS": "1",
    "UV_PYTHON_DOWNLOADS": "never",
}
"""Copies, because a hard link would let an edit in one release reach the cache and the next."""
KEPT = 3
"""Sealed releases that stay: the current one, and two to go back to."""
NAMED = 3
"""Changed files that are named as the reason."""


def query(want: Want) -> dict[str, Any]:
    return {"environments": {name: f"{ROOT}/{name}" for name in want.stack.environment}}


def plan(want: Want, facts: Facts) -> list[Change]:
    there = known(facts.environments, "environments")
    python = known(facts.os, "os").python.version
    glibc = seen.glibc(facts)
    archs = {arch for arch in seen.gpus(want, facts).values() if arch}
    changes: list[Change] = []
    for name, environment in want.stack.environment.items():
        lock = want.stack.locks[name]
        suits = Suits(
            versions=lock.versions(python),
            python=python,
            glibc="" if isinstance(glibc, Unseen) else str(glibc[0]),
            archs=archs,
        )
        wheels, awaited = _wheels(name, environment, want.wheelhouse, suits)
        changes += awaited
        now = there.get(name)
        reason = _reason(now, lock, wheels, python)
        if reason:
            changes.append(_release(want, name, now, reason, python, wheels))
    return changes


def _wheels(
    name: str, environment: Environment, built: tuple[Manifest, ...], suits: Suits
) -> tuple[list[Manifest], list[Change]]:
    """Wheels of our own that join, and those that are awaited: the release is made without them."""
    join, awaited = [], []
    for wanted in environment.wheels:
        found = fitting(built, wanted, suits)
        if isinstance(found, Unfit):
            awaited.append(_awaited(name, wanted, found))
        else:
            join.append(found)
    return join, awaited


def _awaited(name: str, wanted: str, unfit: Unfit) -> Change:
    return Change(
        resource=NAME,
        subject=f"{name}/{Requirement(wanted).name}",
        stage=STAGE,
        before="not built",
        after=wanted,
        why="it is built by us against exactly this lock's torch",
        awaited=f"{unfit.reason}; the environment is made without it",
        hint=f"invoke build --recipe {canonicalize_name(Requirement(wanted).name)}",
    )


def expected(lock: Lock, wheels: list[Manifest], python: str) -> dict[str, str]:
    """Distribution → version of a release."""
    return lock.versions(python) | {wheel.name: wheel.version for wheel in wheels}


def interpreter(facts: Facts, distribution: str) -> str | None:
    """Path of the first environment's interpreter that has a distribution; None without one."""
    found = facts.environments if isinstance(facts.environments, dict) else {}
    having = (name for name, one in found.items() if one and one.distributions.get(distribution))
    return next((f"{ROOT}/{name}/current/bin/python" for name in having), None)


def _reason(there: There | None, lock: Lock, wheels: list[Manifest], python: str) -> str:
    """Why a new release is needed; '' when it is not."""
    if there is None or there.release is None:
        return "there is none yet"
    if there.lock is None:
        return "its manifest is gone or damaged"
    if there.lock != lock.sha256:
        return "the lock has changed"
    if there.python is None or _minor(there.python) != _minor(python):
        return f"it is for Python {there.python}, the host now has {python}"
    joined = {wheel.name: wheel.sha256 for wheel in wheels}
    had = {name: sha256 for name, sha256 in there.wheels.items() if sha256}
    if had != joined:
        names = sorted({name for name, _ in had.items() ^ joined.items()})
        return f"a wheel of ours was built or taken away: {', '.join(names)}"
    return _drift(there, expected(lock, wheels, python))


def _drift(there: There, wanted: dict[str, str]) -> str:
    moved = sorted(
        f"{name} {there.distributions.get(name) or 'absent'} "
        f"instead of {wanted.get(name, 'nothing')}{_whose(there, name)}"
        for name in wanted.keys() | there.distributions.keys()
        if wanted.get(name) != there.distributions.get(name)
    )
    if moved:
        said = f" ({there.broken})" if there.broken else ""
        return f"it has drifted: {', '.join(moved)}{said}"
    if there.intact:
        return ""
    files = ", ".join(f"{one.path} {one.what}" for one in there.changes[:NAMED])
    more = len(there.changes) - NAMED
    files += f" and {more} more" if more > 0 else ""
    return f"files in it were changed since it was sealed{': ' if files else ''}{files}"


def _whose(there: There, name: str) -> str:
    moved = there.moved.get(name)
    return f" by {moved.by}" if moved else ""


def _minor(python: str) -> list[str]:
    return python.split(".")[:2]


def identity(lock: Lock, wheels: list[Manifest]) -> str:
    """Names what a release is made of: the lock, and the wheels of our own that join."""
    parts = [lock.sha256, *sorted(wheel.sha256 for wheel in wheels)]
    return hashlib.sha256("".join(parts).encode()).hexdigest() if wheels else lock.sha256


def _release(
    want: Want,
    name: str,
    there: There | None,
    reason: str,
    python: str,
    wheels: list[Manifest],
) -> Change:
    lock = want.stack.locks[name]
    past = there.releases if there else {}
    made = identity(lock, wheels)[:12]
    mine = re.compile(rf"{made}-([0-9]{{1,9}})")
    numbers = [int(found[1]) for one in past if (found := mine.fullmatch(one))]
    release = f"{made}-{max(numbers, default=0) + 1}"
    root = f"{ROOT}/{name}"
    path = f"{root}/releases/{release}"
    litter, old = _leftovers(there)
    versions = expected(lock, wheels, python)
    joined = {wheel.name: wheel.sha256 for wheel in wheels}
    actions: tuple[Action, ...] = (
        *_discard(root, litter),
        *_install(want, root, path, lock, python, wheels),
        Seal(
            release=path,
            lock=lock.sha256,
            python=python,
            versions=versions,
            wheels=joined,
        ),
        Switch(link=f"{root}/current", target=f"releases/{release}"),
        *_discard(root, old),
    )
    gone = dict.fromkeys([*litter, *old])
    return Change(
        resource=NAME,
        subject=name,
        stage=STAGE,
        before=(there.release if there else None) or "no release",
        after=f"{release} ({len(versions)} distributions)",
        why=reason,
        actions=actions,
        makes={
            "environments": {
                name: {
                    "release": release,
                    "lock": lock.sha256,
                    "wheels": {**dict.fromkeys(there.wheels if there else ()), **joined},
                    "python": python,
                    "intact": True,
                    "changes": [],
                    "distributions": _only(versions, there),
                    "moved": dict.fromkeys(there.moved if there else ()),
                    "broken": None,
                    "releases": {**gone, release: UNSEEN},
                }
            }
        },
    )


def _leftovers(there: There | None) -> tuple[list[str], list[str]]:
    """Releases that were begun and never sealed, and sealed ones beyond those that are kept."""
    past = dict(there.releases) if there else {}
    current = there.release if there else None
    sealed = sorted((at, name) for name, at in past.items() if at and name != current)
    kept = KEPT - 2 if current else KEPT - 1  # the new one comes, the current one stays
    old = [name for _, name in sealed[: max(0, len(sealed) - kept)]]
    return [name for name, at in past.items() if at is None and name != current], old


def _discard(root: str, names: list[str]) -> tuple[Discard, ...]:
    paths = tuple(f"{root}/releases/{name}" for name in sorted(names))
    return (Discard(releases=paths),) if paths else ()


def _install(
    want: Want, root: str, path: str, lock: Lock, python: str, wheels: list[Manifest]
) -> tuple[Action, ...]:
    """The lock by hash from the index or what was fed, then our own wheels by hash."""
    locked = f"{root}/locks/{lock.sha256[:12]}.txt"
    tool = uv.path(want)
    env = ENV | site.environment(want.site)
    into = ("pip", "install", "--python", f"{path}/bin/python", "--no-deps", "--require-hashes")
    install = (tool, *into, "--only-binary", ":all:", "--requirements")
    actions: tuple[Action, ...] = (
        Write(path=locked, content=lock.text),
        Run(argv=(tool, "venv", "--python", INTERPRETER, path), env=env),
    )
    if want.site.feed:
        folder = f"{root}/feed/{lock.sha256[:12]}"
        offline = (*install, locked, "--no-index", "--find-links", folder)
        actions += (
            Feed(lock=lock.sha256, python=python, folder=folder),
            Run(argv=offline, env=env, timeout=3600.0),
        )
    else:
        actions += (Run(argv=(*install, locked), env=env, timeout=3600.0),)
    if not wheels:
        return actions
    files = {wheel: f"{root}/wheels/{wheel.sha256[:12]}/{wheel.file}" for wheel in wheels}
    ours = f"{path}.txt"
    lines = [f"{w.name} @ file://{f} --hash=sha256:{w.sha256}\n" for w, f in files.items()]
    return (
        *actions,
        *(Place(sha256=wheel.sha256, path=file) for wheel, file in files.items()),
        Write(path=ours, content="".join(lines)),
        Run(argv=(*install, ours, "--no-index"), env=env, timeout=600.0),
    )


def _only(versions: dict[str, str], there: There | None) -> dict[str, str | None]:
    """The wanted versions, and None for what the release before had beside them."""
    gone = dict.fromkeys(there.distributions if there else ())
    return {**gone, **versions}
