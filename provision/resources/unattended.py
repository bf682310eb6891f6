"""What unattended-upgrades may not touch; security updates stay on. Reads files.

It replaces user-space libraries under a loaded module: "Driver/library version mismatch".
"""

from __future__ import annotations

from typing import Any

from provision import TOOL
from provision.facts import Facts
from provision.plan import Change, Stage
from provision.resources.managed_file import file_change
from provision.want import Want

NAME = "unattended"
STAGE = Stage.SOURCES
PATH = f"/etc/apt/apt.conf.d/52{TOOL}-unattended-upgrades"
"""After 50unattended-upgrades: lists are added to, not replaced."""

PATTERNS = (
    "nvidia",
    "libnvidia",
    "libcuda",
    "cuda",
    "firmware-nvidia",
    "linux-image",
    "linux-headers",
)
"""Regular expressions that unattended-upgrades matches at the start of a package's name."""


def query(want: Want) -> dict[str, Any]:
    return {"files": [PATH]}


def plan(want: Want, facts: Facts) -> list[Change]:
    lines = "".join(f'    "{pattern}";\n' for pattern in PATTERNS)
    return file_change(
        NAME,
        STAGE,
        facts,
        path=PATH,
        content=f"// {TOOL}\nUnattended-Upgrade::Package-Blacklist {{\n{lines}}};\n",
        why="a driver or kernel may not change under running GPUs",
    )
