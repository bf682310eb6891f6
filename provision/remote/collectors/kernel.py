"""Which GPU modules are in the kernel, and which nvidia module each installed kernel has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from provision.remote.collectors.reading import names, read
from provision.remote.command import Failed, Missing, Output, run
from provision.remote.probe import Query

NAME = "kernel"
MODULES = (
    *("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem"),
    *("nouveau", "nova_core"),
)


def collect(_query: Query) -> dict[str, Any]:
    return {
        "loaded": loaded(Path("/sys/module")),
        "available": {name: _available(name) for name in kernels(Path("/lib/modules"))},
    }


def loaded(modules: Path) -> dict[str, str | None]:
    """Version of each module of interest, '' where it states none, None when not loaded."""
    return {name: _version(modules / name) for name in MODULES}


def _version(module: Path) -> str | None:
    """A module that is built in has no initstate; one that is still coming or going is not live."""
    if not module.is_dir() or read(module / "initstate") not in (None, "live"):
        return None
    return read(module / "version") or ""


def kernels(modules: Path) -> list[str]:
    """Releases of the installed kernels, those without a module as well."""
    return [name for name in names(modules) if (modules / name).is_dir()]


def _available(release: str) -> dict[str, str] | None:
    try:
        return parse_modinfo(run(["modinfo", "-k", release, "nvidia"]))
    except Missing as missing:
        raise Failed(f"modules can't be looked at: {missing}") from missing


def parse_modinfo(said: Output) -> dict[str, str] | None:
    """Version and licence of the module, None where the kernel has none."""
    if said.exit:
        if "not found" in said.err:
            return None
        raise Failed(f"modinfo exits {said.exit}: {said.err.strip() or 'no message'}")
    fields = dict(re.findall(r"^(version|license):\s*(.*?)\s*$", said.out, re.MULTILINE))
    if missing := [name for name in ("version", "license") if name not in fields]:
        raise Failed(f"modinfo states no {' and no '.join(missing)} of nvidia")
    return fields
