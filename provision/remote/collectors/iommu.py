"""Whether an IOMMU is on: it then sorts devices into groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from provision.remote.command import Missing
from provision.remote.probe import Query

NAME = "iommu"


def collect(_query: Query) -> dict[str, Any]:
    return groups(Path("/sys/kernel/iommu_groups"))


def groups(directory: Path) -> dict[str, Any]:
    if not directory.is_dir():
        raise Missing("the kernel knows no IOMMU")
    return {"groups": len(list(directory.iterdir()))}
