"""CUDA toolkits side by side, each at its exact version. Reads dpkg, apt.

They pull in no driver. `/usr/local/cuda` is an alternatives link that nothing of ours follows.
"""

from __future__ import annotations

from typing import Any

from provision.facts import Facts
from provision.plan import Change, Stage
from provision.resources.apt_packages import packages_change
from provision.want import Want

NAME = "toolkits"
STAGE = Stage.PACKAGES


def query(want: Want) -> dict[str, Any]:
    names = [toolkit.package for toolkit in want.stack.system.toolkit.values()]
    return {"packages": names, "policy": names}


def expected(want: Want, facts: Facts) -> dict[str, str | None]:
    """Package → exact version."""
    return {t.package: t.version for t in want.stack.system.toolkit.values()}


def plan(want: Want, facts: Facts) -> list[Change]:
    return [
        change
        for release, toolkit in want.stack.system.toolkit.items()
        for change in packages_change(
            NAME,
            STAGE,
            facts,
            subject=release,
            wanted={toolkit.package: toolkit.version},
            why=f"stack {want.stack.name} wants CUDA {release} in /usr/local/cuda-{release}",
        )
    ]
