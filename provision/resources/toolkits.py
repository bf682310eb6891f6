"""CUDA toolkits side by side, each at its exact version. Reads dpkg, apt.

They pull in no driver. `/usr/local/cuda` is an alternatives link that nothing of ours follows.
"""

from __future__ import annotations

from typing import Any

from provision.facts import Facts
from provision.plan import Change, Stage
from provision.promises import UNSEEN
from provision.resources.apt_packages import packages_change, reinstalled
from provision.resources.known import known
from provision.want import Want

NAME = "toolkits"
STAGE = Stage.PACKAGES


def query(want: Want) -> dict[str, Any]:
    names = [toolkit.package for toolkit in want.stack.toolkit.values()]
    return {"packages": names, "policy": names}


def expected(want: Want, facts: Facts) -> dict[str, str | None]:
    """Package → exact version."""
    return {t.package: t.version for t in want.stack.toolkit.values()}


def plan(want: Want, facts: Facts) -> list[Change]:
    return [
        change
        for release, toolkit in want.stack.toolkit.items()
        for change in packages_change(
            NAME,
            STAGE,
            facts,
            subject=release,
            wanted={toolkit.package: toolkit.version},
            why=f"stack {want.stack.name} wants CUDA {release} in /usr/local/cuda-{release}",
            makes={"toolkits": {"installed": {release: UNSEEN}}},
        )
        or _damaged(release, facts)
    ]


def _damaged(release: str, facts: Facts) -> list[Change]:
    """The packages are right, but files of the toolkit are gone."""
    if known(facts.toolkits, "toolkits").installed.get(release):
        return []
    ending = f"-{release.replace('.', '-')}"
    names = [name for name in known(facts.dpkg, "dpkg").packages if name.endswith(ending)]
    return [
        reinstalled(
            NAME,
            STAGE,
            facts,
            subject=release,
            names=sorted(names),
            why=f"its packages are installed, but /usr/local/cuda-{release} has no nvcc",
            makes={"toolkits": {"installed": {release: UNSEEN}}},
        )
    ]
