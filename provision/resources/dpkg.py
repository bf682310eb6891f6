"""An interrupted dpkg: nothing can be installed before it is finished. Reads dpkg."""

from __future__ import annotations

from typing import Any

from provision.facts import Facts
from provision.plan import Change, Run, Stage
from provision.resources.known import known
from provision.want import Want

NAME = "dpkg"
STAGE = Stage.SOURCES

BROKEN = ("half-configured", "unpacked", "triggers-awaited", "triggers-pending")


def query(want: Want) -> dict[str, Any]:
    return {}


def plan(want: Want, facts: Facts) -> list[Change]:
    dpkg = known(facts.dpkg, "dpkg")
    broken = {
        name for name, package in dpkg.packages.items() if package and package.status in BROKEN
    }
    if not dpkg.interrupted and not broken:
        return []
    return [
        Change(
            resource=NAME,
            subject="dpkg",
            stage=STAGE,
            before=f"interrupted: {', '.join(sorted(broken)) or 'a transaction is unfinished'}",
            after="configured",
            why="apt refuses to work until dpkg has finished",
            actions=(
                Run(argv=("dpkg", "--configure", "-a", "--force-confdef", "--force-confold")),
            ),
            makes={
                "dpkg": {
                    "interrupted": False,
                    "packages": {name: {"status": "installed"} for name in sorted(broken)},
                }
            },
        )
    ]
