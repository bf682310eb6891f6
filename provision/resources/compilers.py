"""Compilers and Python's headers, from the distribution. Reads dpkg, apt."""

from __future__ import annotations

from typing import Any

from provision.facts import Facts
from provision.plan import Change, Stage
from provision.resources.apt_packages import packages_change
from provision.want import Want

NAME = "compilers"
STAGE = Stage.PACKAGES


def query(want: Want) -> dict[str, Any]:
    names = list(want.stack.system.compilers.packages)
    return {"packages": names, "policy": names}


def expected(want: Want, facts: Facts) -> dict[str, str | None]:
    """Package → any version."""
    return dict.fromkeys(want.stack.system.compilers.packages)


def plan(want: Want, facts: Facts) -> list[Change]:
    wanted = expected(want, facts)
    return packages_change(
        NAME,
        STAGE,
        facts,
        subject=", ".join(wanted),
        wanted=wanted,
        why="extensions are built with them, and Triton calls them at run time",
    )
