"""cloud-init at its end: it installs packages and writes sources by itself. Reads cloud_init."""

from __future__ import annotations

from typing import Any

from provision.facts import Absent, Facts
from provision.plan import Change, Run, Stage
from provision.resources.known import known
from provision.want import Want

NAME = "cloud_init"
STAGE = Stage.SOURCES
PATIENCE = 1800.0
"""Seconds: it may upgrade all packages."""
DONE = (0, 2)
"""Exit statuses: since 23.4 it is 2 where it met errors and went on ("Failure states" in its
documentation)."""


def query(want: Want) -> dict[str, Any]:
    return {}


def plan(want: Want, facts: Facts) -> list[Change]:
    if isinstance(facts.cloud_init, Absent) or not known(facts.cloud_init, "cloud_init").running:
        return []
    wait = Run(argv=("cloud-init", "status", "--wait"), timeout=PATIENCE, accepts=DONE)
    return [
        Change(
            resource=NAME,
            subject="cloud-init",
            stage=STAGE,
            before="running",
            after="done",
            why="it installs packages and writes sources by itself at the same time",
            actions=(wait,),
            makes={"cloud_init": {"running": False}},
        )
    ]
