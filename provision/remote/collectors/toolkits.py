"""Which CUDA toolkits lie side by side, and which one /usr/local/cuda means."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from provision.remote.collectors.reading import exists, names
from provision.remote.command import Missing, Output, run
from provision.remote.probe import Query

NAME = "toolkits"
LOCAL = Path("/usr/local")


def collect(_query: Query) -> dict[str, Any]:
    default = LOCAL / "cuda"
    return {
        "installed": {name: _compiler(path) for name, path in toolkits(LOCAL).items()},
        "default": os.path.realpath(default) if exists(default) else None,
    }


def toolkits(local: Path) -> dict[str, Path]:
    """Folders that hold a toolkit by its version; what removal leaves behind does not count."""
    return {
        name.removeprefix("cuda-"): local / name
        for name in names(local)
        if re.fullmatch(r"cuda-\d+\.\d+", name)
        if exists(local / name / "bin") or exists(local / name / "version.json")
    }


def _compiler(toolkit: Path) -> str | None:
    """nvcc's own version, asked of nvcc: files beside it may say another, or outlive it."""
    try:
        return parse_nvcc(run([str(toolkit / "bin/nvcc"), "--version"]))
    except (Missing, OSError):  # the latter where it can't be executed
        return None


def parse_nvcc(said: Output) -> str | None:
    """The build in "release 13.1, V13.1.80", None where nvcc does not answer."""
    match = re.search(r"\bV(\d+(?:\.\d+)+)", said.out)
    return match[1] if match and said.exit == 0 else None
