"""nvidia-persistenced runs, so that an idle GPU keeps its state. Reads units."""

from __future__ import annotations

from typing import Any

from provision.facts import Facts, Unit
from provision.plan import Change, Run, Stage
from provision.resources.known import known
from provision.want import Want

NAME = "persistence"
STAGE = Stage.RUNTIME
UNIT = "nvidia-persistenced.service"
WANTED = Unit(active="active", enabled="enabled")


def query(want: Want) -> dict[str, Any]:
    return {"units": [UNIT]}


def plan(want: Want, facts: Facts) -> list[Change]:
    unit = known(facts.units, "units").get(UNIT)
    if unit == WANTED:
        return []
    masked = unit is not None and unit.enabled.startswith("masked")
    unmask = (Run(argv=("systemctl", "unmask", UNIT), timeout=60.0),) if masked else ()
    return [
        Change(
            resource=NAME,
            subject=UNIT,
            stage=STAGE,
            before=f"{unit.active}, {unit.enabled}" if unit else "no such unit",
            after="active, enabled",
            why="without it each first use of an idle GPU initialises it anew",
            actions=(*unmask, Run(argv=("systemctl", "enable", "--now", UNIT), timeout=60.0)),
            makes={"units": {UNIT: {"active": "active", "enabled": "enabled"}}},
        )
    ]
