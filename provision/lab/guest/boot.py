"""The part of a boot that firmware and kernel do; ends by becoming systemd."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path
from typing import Any

from . import initramfs, modules, mok, state

BOOTED = Path("/var/lib/lab/booted")
CHOSEN = Path("/etc/lab/boot-kernel")
"""The kernel that somebody chose in the boot menu, for the next boot alone."""
RUN = Path("/run/lab")
SPEEDS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
PCI = Path("/sys/bus/pci/devices")
TREE = RUN / "devices/pci0000:00"
GROUPS = Path("/sys/kernel/iommu_groups")


def main(argv: list[str]) -> int:
    """PID 1 of the guest, for a moment."""
    for controller in ("memory", "pids"):  # makes a unit's MemoryMax work on cgroup v1
        folder = f"/sys/fs/cgroup/{controller}"
        if Path(folder).is_dir():
            subprocess.run(
                ["mount", "-o", "remount,rw,bind", folder], check=False, stderr=subprocess.DEVNULL
            )
    machine = state.hardware()
    _overlay_proc(machine)
    for mountpoint in (state.MODULES, state.DRIVER.parent, PCI, GROUPS):
        if mountpoint.is_dir():
            _mount("-t", "tmpfs", "-o", "mode=755,size=4m", "lab", str(mountpoint))
    _devices(machine)
    for kernel in state.kernels():
        if not initramfs.image(kernel).exists():
            initramfs.generate(kernel)
    mok.enrol_at_first_boot()
    modules.load_driver()
    os.execv("/lib/systemd/systemd", ["/lib/systemd/systemd", *argv[1:]])  # noqa: S606


def _mount(*argv: str) -> None:
    subprocess.run(["mount", *argv], check=True)


def _overlay_proc(machine: dict[str, Any]) -> None:
    kernel = _kernel(machine)
    RUN.mkdir(parents=True, exist_ok=True)
    texts = {
        state.OSRELEASE: kernel,
        Path("/proc/cmdline"): f"BOOT_IMAGE=/boot/vmlinuz-{kernel} {machine['cmdline']}",
    }
    for path, value in texts.items():
        source = RUN / path.name
        source.write_text(f"{value}\n", encoding="utf-8")
        _mount("--bind", str(source), str(path))


def _kernel(machine: dict[str, Any]) -> str:
    """The chosen one, or the newest; a host that never booted runs what its description says."""
    if CHOSEN.exists():
        chosen = CHOSEN.read_text(encoding="utf-8").strip()
        CHOSEN.unlink()
        return chosen
    if BOOTED.exists():
        return state.kernels()[-1]
    BOOTED.parent.mkdir(parents=True, exist_ok=True)
    BOOTED.touch()
    return str(machine["kernels"]["running"])


def _devices(machine: dict[str, Any]) -> None:
    model = machine["model"] or {}
    for gpu in state.on_the_bus():
        current = model["idle_link_gen"]
        _device(
            machine,
            gpu,
            {
                "vendor": "0x10de",
                "device": f"0x{model['device']}",
                "subsystem_vendor": "0x10de",
                "subsystem_device": f"0x{model['subsystem']}",
                "class": "0x030200",
                "local_cpulist": gpu["cpus"],
                "current_link_speed": f"{SPEEDS[current]} GT/s PCIe",
                "max_link_speed": f"{SPEEDS[model['link_gen']]} GT/s PCIe",
                "current_link_width": str(model["link_width"]),
                "max_link_width": str(model["link_width"]),
                "resource": _resource(model["bar1_mib"]),
            },
            acs=None,
        )
    for bridge in machine["bridges"]:
        _device(
            machine,
            bridge,
            {
                "vendor": f"0x{bridge['vendor']}",
                "device": f"0x{bridge['device']}",
                "class": "0x060400",
                "current_link_speed": "32.0 GT/s PCIe",
                "max_link_speed": "32.0 GT/s PCIe",
                "current_link_width": "16",
                "max_link_width": "16",
            },
            acs=bridge["acs_redirect"],
        )


def _folder(machine: dict[str, Any], device: dict[str, Any]) -> Path:
    """Below the bridges that it is under, as in /sys/devices."""
    above = {bridge["slot"]: bridge["under"] for bridge in machine["bridges"]}
    chain = [device["slot"]]
    under = device["under"]
    while under:
        chain.append(under)
        under = above[under]
    return TREE.joinpath(*reversed(chain))


def _device(
    machine: dict[str, Any], device: dict[str, Any], files: dict[str, str], *, acs: bool | None
) -> None:
    folder = _folder(machine, device)
    folder.mkdir(parents=True, exist_ok=True)
    (PCI / device["slot"]).symlink_to(folder)
    files |= {"numa_node": str(device["numa"]), "enable": "1", "revision": "0xa1"}
    for name, value in files.items():
        (folder / name).write_text(f"{value}\n", encoding="utf-8")
    (folder / "config").write_bytes(_config(files, acs=acs))
    if machine["iommu"] != "off" and GROUPS.is_dir():
        group = GROUPS / str(device["iommu_group"])
        (group / "devices").mkdir(parents=True, exist_ok=True)
        (group / "type").write_text(f"{machine['iommu']}\n", encoding="utf-8")
        (group / "devices" / device["slot"]).symlink_to(folder)
        (folder / "iommu_group").symlink_to(group)


def _resource(bar1_mib: int) -> str:
    start = 0x7000_0000_0000
    return "\n".join(
        [
            "0x00000000b8000000 0x00000000bbffffff 0x0000000000040200",
            f"0x{start:016x} 0x{start + bar1_mib * 2**20 - 1:016x} 0x000000000014220c",
        ]
    )


def _config(files: dict[str, str], *, acs: bool | None) -> bytes:
    """A PCI Express configuration space; bridges carry the ACS capability at 0x100."""
    space = bytearray(4096)
    struct.pack_into("<HH", space, 0, int(files["vendor"], 16), int(files["device"], 16))
    struct.pack_into("<I", space, 8, (int(files["class"], 16) << 8) | 0xA1)
    if acs is not None:
        space[14] = 1
        control = 0x1D if acs else 0  # SrcValid, ReqRedir, CmpltRedir, UpstreamFwd
        struct.pack_into("<IHH", space, 0x100, 0x0001_000D, 0x5F, control)
    return bytes(space)
