"""Python environments: releases made beside the current one. Reads os, environments.

A release is made whole, held to its lock, and switched to by one rename; what drifted is mended
by another release, never in place. One that is there and still as wanted is not made again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from provision import TOOL
from provision.compatibility import seen
from provision.compatibility.row import Unseen
from provision.facts import Environment as There
from provision.facts import Facts
from provision.interpreter import Interpreter, interpreter
from provision.plan import (
    Action,
    Change,
    Feed,
    Intact,
    Place,
    Python,
    Run,
    Seal,
    Stage,
    Switch,
    Write,
)
from provision.promises import UNSEEN
from provision.remote.paths import ENVIRONMENTS
from provision.resources import releases, site, uv
from provision.resources.known import known
from provision.stack import Environment, Lock
from provision.want import Want
from provision.wheelhouse import Manifest, Suits, Unfit, fitting

NAME = "environment"
STAGE = Stage.RUNTIME
ROOT = str(ENVIRONMENTS)
SYSTEM_PYTHON = "/usr/bin/python3"
PYTHONS = f"/opt/{TOOL}/python"
"""Those that uv fetched."""
ENV = {
    "UV_CACHE_DIR": f"/var/cache/{TOOL}/uv",
    "UV_LINK_MODE": "copy",
    "UV_NO_PROGRESS": "1",
    "UV_PYTHON_DOWNLOADS": "never",
}
"""Copies, because a hard link would let an edit in one release reach the cache and the next."""
NAMED = 3
"""Changed files that are named as the reason."""


def query(want: Want) -> dict[str, Any]:
    return {
        "environments": {
            name: {"root": f"{ROOT}/{name}", "wanted": sorted(_identities(want, name))}
            for name in want.stack.environment
        }
    }


def room(want: Want, facts: Facts) -> Iterator[tuple[str, float, str]]:
    """What releases take that are still to be made: mount, GiB, and for what.

    One of the same lock is as large as the one there; a first one fills uv's cache, too. What one
    that was cut off has taken already is not known: then nothing is said. Raises NotKnown as
    planning does.
    """
    there = known(facts.environments, "environments")
    for change in plan(want, facts):
        seal = next((action for action in change.actions if isinstance(action, Seal)), None)
        name = change.subject
        now = there.get(name)
        past = now.releases.values() if now else ()
        if seal is None or None in past:
            continue
        figure = want.stack.environment[name].space_gib
        measured = now.sizes.get(now.release or "", 0) / 2**30 if now else None
        size = measured if now and now.lock == seal.lock else figure or measured
        if size:
            yield "/opt", size, f"a release of environment {name}"
            if not past:
                yield "/var", size, f"uv's cache of {name}"


def _identities(want: Want, name: str) -> set[str]:
    """What the wanted release may be called before its number, whichever Python the host has."""
    environment, lock = want.stack.environment[name], want.stack.locks[name]
    suits = (Suits(versions=lock.versions(python), python=python) for python in environment.pythons)
    return {
        identity(lock, _wheels(name, environment, want.wheelhouse, one)[0])[:12] for one in suits
    }


def plan(want: Want, facts: Facts) -> list[Change]:
    there = known(facts.environments, "environments")
    os = known(facts.os, "os")
    glibc = seen.glibc(facts)
    archs = {arch for arch in seen.gpus(want, facts).values() if arch}
    changes: list[Change] = []
    for name, environment in want.stack.environment.items():
        lock = want.stack.locks[name]
        python = interpreter(environment, os)
        suits = Suits(
            versions=lock.versions(python.version),
            python=python.version,
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


def python_with(facts: Facts, distribution: str) -> str | None:
    """Path of the first environment's interpreter that has a distribution; None without one."""
    found = facts.environments if isinstance(facts.environments, dict) else {}
    having = (name for name, one in found.items() if one and one.distributions.get(distribution))
    return next((f"{ROOT}/{name}/current/bin/python" for name in having), None)


def _reason(there: There | None, lock: Lock, wheels: list[Manifest], python: Interpreter) -> str:
    """Why another release is needed; '' when it is not."""
    if there is None or there.release is None:
        return "there is none yet"
    unfit = releases.unfit(there, lock, _joined(wheels), python.name)
    return unfit or _drift(there, expected(lock, wheels, python.version))


def _joined(wheels: list[Manifest]) -> dict[str, str]:
    return {wheel.name: wheel.sha256 for wheel in wheels}


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


def identity(lock: Lock, wheels: list[Manifest]) -> str:
    """Names what a release is made of: the lock, and the wheels of our own that join."""
    parts = [lock.sha256, *sorted(wheel.sha256 for wheel in wheels)]
    return hashlib.sha256("".join(parts).encode()).hexdigest() if wheels else lock.sha256


def _release(
    want: Want,
    name: str,
    there: There | None,
    reason: str,
    python: Interpreter,
    wheels: list[Manifest],
) -> Change:
    """Switch to a release that is as wanted: one that is there already, or one made for it."""
    lock = want.stack.locks[name]
    versions, joined = expected(lock, wheels, python.version), _joined(wheels)
    root = f"{ROOT}/{name}"
    actions: tuple[Action, ...]
    made = False
    if there and (release := releases.ready(there, lock, joined, python.name)):
        made_with = there.older[release].python
        after = f"{release}, which is there already"
        actions = (Intact(release=f"{root}/releases/{release}"),)
    else:
        release = releases.fresh(there, identity(lock, wheels)[:12])
        path = f"{root}/releases/{release}"
        made_with = python.name
        after = f"{release} ({len(versions)} distributions)"
        reason = f"{reason}; its Python is {python.reason}"
        seal = Seal(
            release=path, lock=lock.sha256, python=made_with, versions=versions, wheels=joined
        )
        actions = (*_install(want, root, path, lock, python, wheels), seal)
        made = True
    litter, old = releases.leftovers(there, release)
    needed = releases.made_from(lock.sha256, joined.values(), feed=want.site.feed)
    beside = releases.needless(there, needed, old)
    stored = {*(there.stored if there else ()), *(needed if made else ())} - {*beside}
    return Change(
        resource=NAME,
        subject=name,
        stage=STAGE,
        before=(there.release if there else None) or "no release",
        after=after,
        why=reason,
        actions=(
            *releases.discard(root, litter),
            *actions,
            Switch(link=f"{root}/current", target=f"releases/{release}"),
            *releases.discard(root, old, beside),
        ),
        makes={
            "environments": {
                name: {
                    "release": release,
                    "lock": lock.sha256,
                    "wheels": {**dict.fromkeys(there.wheels if there else ()), **joined},
                    "python": made_with,
                    "intact": True,
                    "changes": [],
                    "distributions": _only(versions, there),
                    "moved": dict.fromkeys(there.moved if there else ()),
                    "broken": None,
                    "proved": {},
                    "releases": {**dict.fromkeys([*litter, *old]), release: UNSEEN},
                    "sizes": {},
                    "stored": sorted(stored),
                    "older": {},
                }
            }
        },
    )


def _install(
    want: Want, root: str, path: str, lock: Lock, python: Interpreter, wheels: list[Manifest]
) -> tuple[Action, ...]:
    """The lock by hash from the index or what was fed, then our own wheels by hash."""
    locked = f"{root}/locks/{lock.sha256[:12]}.txt"
    tool = uv.path(want)
    env = ENV | site.environment(want.site)
    into = ("pip", "install", "--python", f"{path}/bin/python", "--no-deps", "--require-hashes")
    install = (tool, *into, "--only-binary", ":all:", "--requirements")
    actions: tuple[Action, ...] = (
        Write(path=locked, content=lock.text),
        *_venv(tool, path, python, env),
    )
    if want.site.feed:
        folder = f"{root}/feed/{lock.sha256[:12]}"
        offline = (*install, locked, "--no-index", "--find-links", folder)
        actions += (
            Feed(lock=lock.sha256, python=python.version, folder=folder),
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


def _venv(tool: str, path: str, python: Interpreter, env: dict[str, str]) -> tuple[Action, ...]:
    """An empty release, on a Python that uv fetches first where it is not the system's."""
    if not python.managed:
        return (Run(argv=(tool, "venv", "--python", SYSTEM_PYTHON, path), env=env),)
    fetch = (tool, "python", "install", python.managed, "--install-dir", PYTHONS, "--no-bin")
    venv = (tool, "venv", "--managed-python", "--python", python.managed, path)
    return (
        Python(argv=fetch, env=env | {"UV_PYTHON_DOWNLOADS": "manual"}),
        Run(argv=venv, env=env | {"UV_PYTHON_INSTALL_DIR": PYTHONS}),
    )


def _only(versions: dict[str, str], there: There | None) -> dict[str, str | None]:
    """The wanted versions, and None for what the release before had beside them."""
    gone = dict.fromkeys(there.distributions if there else ())
    return {**gone, **versions}
