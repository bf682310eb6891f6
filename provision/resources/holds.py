"""Packages that their owner holds stay held, also where a run was cut off. Reads files, dpkg.

dpkg forgets a package's hold when it installs it. So each transaction with held packages notes
them first, holds them again, and takes the notes away; a note that is found was left in between.
"""

from __future__ import annotations

from typing import Any

from provision.facts import Facts
from provision.plan import Action, Change, Remove, Run, Stage
from provision.resources import driver, toolkits
from provision.resources.apt_packages import HELD, there
from provision.resources.known import known
from provision.want import Want

NAME = "holds"
STAGE = Stage.PACKAGES


def query(want: Want) -> dict[str, Any]:
    return {"files": [f"{HELD}/{name}" for name in _packages(want)]}


def plan(want: Want, facts: Facts) -> list[Change]:
    files, dpkg = known(facts.files, "files"), known(facts.dpkg, "dpkg")
    noted = [name for name in _packages(want) if files.get(f"{HELD}/{name}") and there(dpkg, name)]
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
                "dpkg": {"packages": {name: {"hold": True} for name in noted}},
                "files": {f"{HELD}/{name}": None for name in noted},
            },
        )
    ]


def _packages(want: Want) -> list[str]:
    """Those that the stack itself moves."""
    return [*driver.query(want)["packages"], *toolkits.query(want)["packages"]]
