"""NVIDIA's devices on the PCI bus, whether they have a driver or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from provision.remote.collectors.reading import need, read
from provision.remote.command import Missing
from provision.remote.probe import Query

NAME = "pci"
BUS = Path("/sys/bus/pci/devices")
NVIDIA = "10de"
"""NVIDIA's vendor number in the PCI ID registry."""


def collect(_query: Query) -> list[dict[str, Any]]:
    if not BUS.is_dir():
        raise Missing("no PCI bus")
    return devices(BUS)


def devices(bus: Path) -> list[dict[str, Any]]:
    """All functions of NVIDIA's (GPUs, their audio, NVSwitch bridges), by address."""
    paths = sorted(bus.iterdir(), key=lambda path: path.name)
    return [_device(path) for path in paths if _hex(path / "vendor") == NVIDIA]


def _device(path: Path) -> dict[str, Any]:
    driver = path / "driver"
    return {
        "slot": path.name.lower(),
        "device": f"{NVIDIA}:{_hex(path / 'device')}",
        "kind": _hex(path / "class")[:4],
        "numa": parse_node(read(path / "numa_node")),
        "driver": driver.readlink().name if driver.is_symlink() else None,
        "iommu": read(path / "iommu_group/type"),
    }


def _hex(path: Path) -> str:
    """Lower-case digits of a number that sysfs writes with 0x."""
    return need(path).lower().removeprefix("0x")


def parse_node(text: str | None) -> int | None:
    """NUMA node; the kernel writes -1 where the firmware names none, no file without NUMA."""
    return None if text in (None, "-1") else int(text)
