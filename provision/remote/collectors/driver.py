"""Which driver is in the kernel, and which library programs would load."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from provision.remote.collectors.reading import exists, read
from provision.remote.command import Failed, Missing, output
from provision.remote.probe import Query

NAME = "driver"
LIBRARY = "libnvidia-ml.so.1"
SMI = "/usr/bin/nvidia-smi"
UNINSTALLERS = ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer")
"""What NVIDIA's installer leaves behind; no package ships either."""
DIRECTORIES = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
)
"""Where distributions put 64-bit libraries, for a host whose loader's cache is stale."""


def collect(_query: Query) -> dict[str, Any]:
    version = read("/proc/driver/nvidia/version")
    return {
        "loaded": read("/sys/module/nvidia/version"),
        "flavour": None if version is None else parse_flavour(version),
        "library": _library(),
        "smi": exists(SMI),
        "runfile": next((path for path in UNINSTALLERS if exists(path)), None),
    }


def parse_flavour(text: str) -> str:
    """Flavour from /proc/driver/nvidia/version."""
    if "NVRM version" not in text:
        raise Failed(f"/proc/driver/nvidia/version states no version: {text[:80]!r}")
    return "open" if "Open Kernel Module" in text else "proprietary"


def _library() -> str | None:
    for path in _candidates():
        if exists(path):
            return parse_library(os.path.realpath(path))
    return None


def _candidates() -> Iterator[str]:
    with contextlib.suppress(Missing):
        yield from parse_ldconfig(output(["ldconfig", "-p"]))
    yield from (str(Path(directory) / LIBRARY) for directory in DIRECTORIES)


def parse_ldconfig(text: str) -> list[str]:
    """Paths of the 64-bit library in the order of the loader's cache."""
    entry = rf"^\s*{re.escape(LIBRARY)} \([^)]*(?:x86-64|AArch64)[^)]*\) => (\S+)$"
    return re.findall(entry, text, re.MULTILINE)


def parse_library(path: str) -> str:
    """The version that the library's real file name ends with."""
    match = re.search(r"/libnvidia-ml\.so\.(\d+(?:\.\d+)+)$", path)
    if not match:
        raise Failed(f"{path} does not name its version")
    return match[1]
