"""The driver's device files: without them nothing reaches a GPU, whatever the module says."""

from __future__ import annotations

from provision.remote.collectors.reading import names
from provision.remote.probe import Query

NAME = "device_files"


def collect(_query: Query) -> list[str]:
    return parse_names(names("/dev"))


def parse_names(found: list[str]) -> list[str]:
    """Those of NVIDIA's, of a folder's names."""
    return [name for name in found if name.startswith("nvidia")]
