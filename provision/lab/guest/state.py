"""The simulated machine as the guest's tools see it: what it is made of, what is loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HARDWARE = Path("/etc/lab/hardware.json")
OSRELEASE = Path("/proc/sys/kernel/osrelease")
MODULES = Path("/sys/module")
DRIVER = Path("/proc/driver/nvidia")
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
PERSISTENCE = Path("/run/lab-persistence-mode")

DEPENDENTS = ("nvidia_uvm", "nvidia_modeset", "nvidia_drm")
"""Modules that live in nvidia's own package and need it."""


def hardware() -> dict[str, Any]:
    """The description of this host's simulated hardware."""
    data: dict[str, Any] = json.loads(HARDWARE.read_text(encoding="utf-8"))
    return data


def running_kernel() -> str:
    """The simulated kernel; uname would name the machine's."""
    return OSRELEASE.read_text(encoding="utf-8").strip()


def version_key(version: str) -> list[tuple[int, str]]:
    """Order versions by their numbers, then by text."""
    return [
        (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"[.-]", version)
    ]


def kernels() -> list[str]:
    """Kernels in /boot, oldest first."""
    found = [path.name.partition("-")[2] for path in Path("/boot").glob("vmlinuz-*")]
    return sorted(found, key=version_key)


def module_file(name: str, kernel: str) -> Path | None:
    """The file that gives a kernel the module; nvidia's siblings come with nvidia.

    Debian's own packages call it nvidia-current; a .run file puts it in the kernel's own tree.
    """
    stem = "nvidia" if name in DEPENDENTS else name
    built = Path("/lib/modules") / kernel / "updates/dkms"
    paths = [built / f"{stem}.ko"]
    if stem == "nvidia":
        paths += [built / "nvidia-current.ko", installer_module(kernel)]
    return next((path for path in paths if path.is_file()), None)


def installer_module(kernel: str) -> Path:
    """Where nvidia-installer puts the module."""
    return Path("/lib/modules") / kernel / "kernel/drivers/video/nvidia.ko"


def module_text(version: str, licence: str, kernel: str) -> str:
    """What a simulated module file holds: the fields that modinfo shows."""
    return (
        "simulated kernel module\n"
        f"version={version}\nlicense={licence}\nsrcversion=51301CA11AB0000000000000\n"
        f"vermagic={kernel} SMP preempt mod_unload modversions\n"
    )


def module_info(path: Path) -> dict[str, str]:
    """The fields of a built module file."""
    fields = (
        line.partition("=") for line in path.read_text(encoding="utf-8").splitlines() if "=" in line
    )
    return {key: value for key, _, value in fields}


def loaded() -> list[str]:
    """Modules that are loaded, sorted."""
    return sorted(path.name for path in MODULES.iterdir()) if MODULES.is_dir() else []


def driver_version() -> str | None:
    """The version of the loaded nvidia module, None when it isn't loaded."""
    path = MODULES / "nvidia/version"
    return path.read_text(encoding="utf-8").strip() if path.exists() else None


def library_version() -> str | None:
    """The version of the installed libnvidia-ml, None when there is none."""
    link = LIBRARIES / "libnvidia-ml.so.1"
    return link.resolve().name.partition(".so.")[2] if link.exists() else None


def visible_gpus() -> list[dict[str, Any]]:
    """The GPUs that the loaded module drives: none under the wrong flavour."""
    machine = hardware()
    banner = DRIVER / "version"
    proprietary = banner.exists() and " Open " not in banner.read_text(encoding="utf-8")
    if not machine["gpus"] or (machine["model"]["open_module_only"] and proprietary):
        return []
    there = [gpu for gpu in on_the_bus() if not gpu["faults"]["silent"]]
    return sorted(there, key=lambda gpu: str(gpu["slot"]))


def on_the_bus() -> list[dict[str, Any]]:
    """The GPUs that firmware and kernel find."""
    return [gpu for gpu in hardware()["gpus"] if not gpu["faults"]["absent"]]


def card(gpu: dict[str, Any], model: dict[str, Any]) -> dict[str, Any]:
    """What one GPU is: its model, with its faults."""
    faults = {name: value for name, value in gpu["faults"].items() if value is not None}
    slot_gen = faults.get("link_gen", model["link_gen"])
    return {
        **model,
        **faults,
        "most_gen": model["link_gen"],
        "slot_gen": slot_gen,
        "link_gen": min(slot_gen, model["link_gen"]),
        "idle_link_gen": min(slot_gen, model["idle_link_gen"]),
        "most_width": model["link_width"],
        "default_power_w": model["power_limit_w"],
    }


def persistent() -> bool:
    """Whether persistence mode is on: by the daemon, or by nvidia-smi -pm 1."""
    return Path("/run/nvidia-persistenced/nvidia-persistenced.pid").exists() or PERSISTENCE.exists()


def modprobe_lines() -> Iterator[tuple[str, list[str]]]:
    """Directive and words of every modprobe configuration line."""
    for folder in ("/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d"):
        for path in sorted(Path(folder).glob("*.conf")):
            for line in path.read_text(encoding="utf-8").splitlines():
                words = line.partition("#")[0].split()
                if words:
                    yield words[0], words[1:]


def blacklisted(name: str) -> bool:
    """Whether a module's own aliases are switched off."""
    return any(
        directive == "blacklist" and words[:1] and words[0].replace("-", "_") == name
        for directive, words in modprobe_lines()
    )
