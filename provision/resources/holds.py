"""Packages that their owner holds stay held, also where a run was cut off. Reads dpkg.

dpkg forgets a package's hold when it installs it. So each transaction with held packages notes
them first, holds them again, and takes the notes away; a note that is found was left in between.
"""

from __future__ import annotations

from typing import Any

from provision.facts import Facts
from provision.plan import Action, Change, Remove, Run, Stage
from provision.resources.apt_packages import HELD, there
from provision.resources.known import known
from provision.want import Want

NAME = "holds"
STAGE = Stage.PACKAGES


def query(want: Want) -> dict[str, Any]:
    return {}


def plan(want: Want, facts: Facts) -> list[Change]:
    dpkg = known(facts.dpkg, "dpkg")
    noted = [name for name in dpkg.noted if there(dpkg, name)]
    if not noted:
        return []
    forget: tuple[Action, ...] = tuple(Remove(path=f"{HELD}/{name}") for name in noted)
    return [
        Change(
            resource=NAME,
            subject=", ".join(noted),
            stage=STAGE,
            before="held before a run that was cut off",
            after="held",
            why="dpkg forgets a hold when it installs the package",
            actions=(Run(argv=("apt-mark", "hold", *noted)), *forget),
            makes={
                "dpkg": {
                    "packages": {name: {"hold": True} for name in noted},
                    "noted": [name for name in dpkg.noted if name not in noted],
                },
            },
        )
    ]
