"""Going back: to the driver that a host had before, or to the releases before. Pure."""

from __future__ import annotations

from dataclasses import replace

from provision.errors import ProvisionError
from provision.facts import Dpkg, Environment, Facts, Os
from provision.plan import Change, Intact, Stage, Switch
from provision.resources import environment
from provision.want import Want

REVISION = "-"
"""What parts a package's version from what the distribution adds to it."""


def driver(host: str, want: Want, facts: Facts) -> Want:
    """The same want with the driver whose packages the host has kept.

    Raises ProvisionError where it has kept none.
    """
    os, dpkg, kept = facts.os, facts.dpkg, facts.kept
    names = want.driver_for(os) if isinstance(os, Os) else None
    if names is None or not isinstance(os, Os) or not isinstance(dpkg, Dpkg):
        raise ProvisionError(f"{host}: its distribution or packages are not known")
    main = names.packages[0]
    there = dpkg.packages.get(main)
    now = there.version if there else "none"
    files = kept.get(main, {}) if isinstance(kept, dict) else {}
    before = sorted(version for version in files if version != now)
    if not before:
        raise ProvisionError(
            f"{host}: no other driver than {now} was kept here",
            hint="its packages are kept when `provision` replaces a driver; to choose one "
            "yourself, give the host a stack that names it",
        )
    version, dash, revision = before[-1].partition(REVISION)
    system = want.stack.system
    packages = names.model_copy(update={"revision": dash + revision})
    moved = system.driver.model_copy(update={"version": version, os.id: packages})
    stack = want.stack.model_copy(
        update={
            "name": f"{want.stack.name} with driver {version}",
            "system": system.model_copy(update={"driver": moved}),
            "locks": want.stack.locks,  # which are found by the stack's own name
        },
    )
    return replace(want, stack=stack)


def environments(host: str, want: Want, facts: Facts) -> tuple[Change, ...]:
    """The changes that switch each environment to the release sealed before the current one.

    Raises ProvisionError where no environment has one that is as it was then.
    """
    there = facts.environments if isinstance(facts.environments, dict) else {}
    changes, changed = [], []
    for name, found in ((name, there.get(name)) for name in want.stack.environment):
        before, passed = _before(found) if found else (None, [])
        changed += passed
        if found and before:
            changes.append(_switched(name, found, before, passed))
    if not changes:
        raise ProvisionError(
            f"{host}: no environment has an older release to go back to{_passed(changed)}",
            hint="`invoke facts` shows the releases that there are",
        )
    return tuple(changes)


def _before(there: Environment) -> tuple[str | None, list[str]]:
    """The release that was sealed last before the current one, whose own seal may be gone.

    And those between the two that are passed over: they are no more what they were.
    """
    at = there.releases.get(there.release or "")
    sealed = [(when, name) for name, when in there.releases.items() if when]
    passed: list[str] = []
    for when, name in sorted(sealed, reverse=True):
        if at is not None and when >= at:
            continue
        if (older := there.older.get(name)) and older.intact is False:
            passed.append(name)
        else:
            return name, passed
    return None, passed


def _passed(names: list[str]) -> str:
    return f"; changed since sealed, and passed over: {', '.join(names)}" if names else ""


def _switched(name: str, there: Environment, before: str, passed: list[str]) -> Change:
    root = f"{environment.ROOT}/{name}"
    return Change(
        resource=environment.NAME,
        subject=name,
        stage=Stage.RUNTIME,
        before=there.release or "no release",
        after=before,
        why=f"a rollback was asked for{_passed(passed)}",
        actions=(
            Intact(release=f"{root}/releases/{before}"),
            Switch(link=f"{root}/current", target=f"releases/{before}"),
        ),
        makes={"environments": {name: {"release": before}}},
    )
