"""nouveau and nova_core never load: they would hold the cards. Reads files, dpkg."""

from __future__ import annotations

from typing import Any

from provision import TOOL
from provision.facts import Facts
from provision.plan import Action, Change, Run, Stage
from provision.resources.known import known
from provision.resources.managed_file import file_change
from provision.want import Want

NAME = "nouveau"
STAGE = Stage.SOURCES
PATH = f"/etc/modprobe.d/{TOOL}-nouveau.conf"
CONTENT = f"""# {TOOL}
blacklist nouveau
blacklist nova_core
options nouveau modeset=0
"""


def query(want: Want) -> dict[str, Any]:
    return {"files": [PATH], "packages": ["initramfs-tools"]}


def plan(want: Want, facts: Facts) -> list[Change]:
    then: tuple[Action, ...] = ()
    if known(facts.dpkg, "dpkg").packages.get("initramfs-tools"):
        then = (Run(argv=("update-initramfs", "-u", "-k", "all")),)
    return file_change(
        NAME,
        STAGE,
        facts,
        path=PATH,
        content=CONTENT,
        why="only the NVIDIA driver may take the GPUs",
        then=then,
    )
