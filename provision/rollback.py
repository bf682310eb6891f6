"""Going back: the want of a host that shall have the driver which it had before. Pure."""

from __future__ import annotations

from dataclasses import replace

from packaging.version import Version

from provision.errors import ProvisionError
from provision.facts import Dpkg, Facts, Os
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
        },
    )
    return replace(want, stack=stack)


def too_old(want: Want) -> list[str]:
    """Toolkits whose programs need a newer driver than the want's, in words."""
    driver = want.stack.system.driver.version
    return [
        f"CUDA {release} needs driver {toolkit.driver}"
        for release, toolkit in want.stack.toolkit.items()
        if Version(driver) < Version(toolkit.driver)
    ]
