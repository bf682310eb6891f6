"""Python environments: releases made beside the current one. Reads os, environments.

A release is made whole, held to its RECORD files, and switched to by one rename; what drifted
is mended by a new release, never in place.
"""

from __future__ import annotations

import re
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from provision import TOOL
from provision.facts import Environment as There
from provision.facts import Facts
from provision.plan import Action, Change, Run, Seal, Stage, Switch, Write
from provision.resources import site, uv
from provision.resources.known import NotKnown, known
from provision.stack import Environment, Lock
from provision.want import Want

NAME = "environment"
STAGE = Stage.RUNTIME
ROOT = f"/opt/{TOOL}/environments"
INTERPRETER = "/usr/bin/python3"
ENV = {
    "UV_CACHE_DIR": f"/var/cache/{TOOL}/uv",
    "UV_LINK_MODE": "copy",
    "UV_NO_PROGRESS": "1",
    "UV_PYTHON_DOWNLOADS": "never",
}
"""Copies, because a hard link would let an edit in one release reach the cache and the next."""


def query(want: Want) -> dict[str, Any]:
    return {"environments": {name: f"{ROOT}/{name}" for name in want.stack.environment}}


def plan(want: Want, facts: Facts) -> list[Change]:
    there = known(facts.environments, "environments")
    changes: list[Change] = []
    for name, environment in want.stack.environment.items():
        lock = want.stack.locks[name]
        changes += _awaited(name, environment)
        now = there.get(name)
        python = known(facts.os, "os").python.version
        reason = _reason(now, lock, python)
        if reason:
            _fits(name, environment, python)
            changes.append(_release(want, name, now, reason, python))
    return changes


def _reason(there: There | None, lock: Lock, python: str) -> str:
    """Why a new release is needed; '' when it is not."""
    if there is None or there.release is None:
        return "there is none yet"
    if there.lock is None:
        return "its manifest is gone or damaged"
    if there.lock != lock.sha256:
        return "the lock has changed"
    if there.python is None or _minor(there.python) != _minor(python):
        return f"it is for Python {there.python}, the host now has {python}"
    wanted = lock.versions
    moved = sorted(
        f"{name} {there.distributions.get(name) or 'absent'} "
        f"instead of {wanted.get(name, 'nothing')}"
        for name in wanted.keys() | there.distributions.keys()
        if wanted.get(name) != there.distributions.get(name)
    )
    if moved:
        return f"it has drifted: {', '.join(moved)}"
    return "" if there.intact else "files in it were changed since it was sealed"


def _minor(python: str) -> list[str]:
    return python.split(".")[:2]


def _fits(name: str, environment: Environment, python: str) -> None:
    if not SpecifierSet(environment.python).contains(python):
        raise NotKnown(
            f"environment {name} is locked for Python {environment.python}, "
            f"the host's {INTERPRETER} is {python}",
            subject=name,
        )


def _release(want: Want, name: str, there: There | None, reason: str, python: str) -> Change:
    lock = want.stack.locks[name]
    past = there.releases if there else []
    mine = re.compile(rf"{lock.sha256[:12]}-([0-9]{{1,9}})")
    made = [int(found[1]) for one in past if (found := mine.fullmatch(one))]
    release = f"{lock.sha256[:12]}-{max(made, default=0) + 1}"
    root = f"{ROOT}/{name}"
    path = f"{root}/releases/{release}"
    locked = f"{root}/locks/{lock.sha256[:12]}.txt"
    tool = uv.path(want)
    env = ENV | site.environment(want.site)
    actions: tuple[Action, ...] = (
        Write(path=locked, content=lock.text),
        Run(argv=(tool, "venv", "--python", INTERPRETER, path), env=env),
        Run(
            argv=(
                *(tool, "pip", "install", "--python", f"{path}/bin/python", "--no-deps"),
                *("--require-hashes", "--only-binary", ":all:", "--requirements", locked),
            ),
            env=env,
            timeout=3600.0,
        ),
        Seal(release=path, lock=lock.sha256, python=python),
        Switch(link=f"{root}/current", target=f"releases/{release}"),
    )
    return Change(
        resource=NAME,
        subject=name,
        stage=STAGE,
        before=(there.release if there else None) or "no release",
        after=f"{release} ({len(lock.versions)} distributions)",
        why=reason,
        actions=actions,
        makes={
            "environments": {
                name: {
                    "release": release,
                    "lock": lock.sha256,
                    "python": python,
                    "intact": True,
                    "distributions": _only(lock.versions, there),
                    "releases": sorted([*past, release]),
                }
            }
        },
    )


def _only(versions: dict[str, str], there: There | None) -> dict[str, str | None]:
    """The lock's versions, and None for what the release before had beside them."""
    gone = dict.fromkeys(there.distributions if there else ())
    return {**gone, **versions}


def _awaited(name: str, environment: Environment) -> list[Change]:
    """Wheels of our own that no wheelhouse holds yet: the release is made without them."""
    return [
        Change(
            resource=NAME,
            subject=f"{name}/{Requirement(wheel).name}",
            stage=STAGE,
            before="not built",
            after=wheel,
            why="it is built by us against exactly this lock's torch",
            awaited="nobody has built this wheel yet; the environment is made without it",
        )
        for wheel in environment.wheels
    ]
