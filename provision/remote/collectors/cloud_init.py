"""Whether cloud-init is still at work: it installs packages and writes sources by itself.

Its generator makes `enabled` early in the boot; `result.json` there is a link to a file that it
writes when it has finished (cloud-init's doc/status.txt).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from provision.remote.collectors.reading import exists
from provision.remote.command import PATH, Missing
from provision.remote.probe import Query

NAME = "cloud_init"
RUN = Path("/run/cloud-init")


def collect(_query: Query) -> dict[str, Any]:
    if not shutil.which("cloud-init", path=PATH):
        raise Missing("no cloud-init")
    return {"running": exists(RUN / "enabled") and not exists(RUN / "result.json")}
