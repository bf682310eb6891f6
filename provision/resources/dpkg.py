"""An interrupted dpkg: nothing can be installed before it is finished. Reads dpkg.

What it did not unpack in whole needs more than that: see unfinished.
"""

from __future__ import annotations

from typing import Any

from provision.facts import Dpkg, Facts
from provision.plan import Change, Run, Stage
from provision.resources.known import known
from provision.want import Want

NAME = "dpkg"
STAGE = Stage.SOURCES

UNCONFIGURED = ("half-configured", "triggers-awaited", "triggers-pending")
"""States that dpkg brings to an end by itself."""
UNPACKING = ("half-installed", "unpacked")
"""States of a package that is there in part, or whose dependencies may not be there at all."""


def query(want: Want) -> dict[str, Any]:
    return {}


def unconfigured(dpkg: Dpkg) -> list[str]:
    """Packages that were unpacked with all that they need, and not configured."""
    return sorted(name for name, p in dpkg.packages.items() if p and p.status in UNCONFIGURED)


def cut_short(dpkg: Dpkg) -> list[str]:
    """Packages that were not unpacked to the end."""
    return sorted(
        name
        for name, package in dpkg.packages.items()
        if package and (package.status in UNPACKING or package.reinstreq)
    )


def plan(want: Want, facts: Facts) -> list[Change]:
    dpkg = known(facts.dpkg, "dpkg")
    broken, torn = unconfigured(dpkg), cut_short(dpkg)
    if not dpkg.interrupted and (torn or not broken):
        return []
    configure = Run(
        argv=("dpkg", "--configure", "-a", "--force-confdef", "--force-confold"),
        # It fails for those that depend on one which is not unpacked.
        accepts=(0, 1) if torn else (0,),
    )
    done = [] if torn else broken
    return [
        Change(
            resource=NAME,
            subject="dpkg",
            stage=STAGE,
            before=f"interrupted: {', '.join([*broken, *torn]) or 'a transaction is unfinished'}",
            after="configured",
            why="apt refuses to work until dpkg has finished",
            actions=(configure,),
            makes={
                "dpkg": {
                    "interrupted": False,
                    "packages": {name: {"status": "installed"} for name in done},
                }
            },
        )
    ]
