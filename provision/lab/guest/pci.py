"""Simulated lspci over the simulated /sys/bus/pci/devices."""

from __future__ import annotations

import sys
from pathlib import Path

from . import state

DEVICES = Path("/sys/bus/pci/devices")
CLASSES = {"0302": "3D controller", "0604": "PCI bridge"}
VENDORS = {"10de": "NVIDIA Corporation", "1022": "Advanced Micro Devices, Inc. [AMD]"}
ACS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")


def main(argv: list[str]) -> int:
    """List devices; knows -n -nn -D -v -k and the filters -d and -s."""
    numbers, verbose, domain, drivers = 0, 0, False, False
    vendor, slot = "", ""
    words = iter(argv[1:])
    for word in words:
        if word == "--version":
            sys.stdout.write("lspci version 3.13.0 (simulated by the lab host)\n")
            return 0
        if word in ("-d", "-s"):
            value = next(words, "")
            vendor, slot = (value, slot) if word == "-d" else (vendor, value)
            continue
        numbers += word.count("n")
        verbose += word.count("v")
        domain |= "D" in word
        drivers |= "k" in word
    for folder in sorted(DEVICES.iterdir()):
        if _matches(folder, vendor, slot):
            name = folder.name if domain else folder.name.removeprefix("0000:")
            sys.stdout.write(f"{name} {_describe(folder, numbers)}\n")
            if verbose:
                sys.stdout.write(_details(folder))
            driver = folder / "driver"
            if (verbose or drivers) and driver.is_symlink():
                sys.stdout.write(f"\tKernel driver in use: {driver.readlink().name}\n")
            if verbose:
                sys.stdout.write("\n")
    return 0


def _read(folder: Path, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8").strip()


def _hex(folder: Path, name: str) -> str:
    return _read(folder, name).removeprefix("0x")


def _matches(folder: Path, vendor: str, slot: str) -> bool:
    ids = f"{_hex(folder, 'vendor')}:{_hex(folder, 'device')}"
    return ids.startswith(vendor.lower()) and folder.name.endswith(slot)


def _describe(folder: Path, numbers: int) -> str:
    kind = _hex(folder, "class")[:4]
    vendor, device = _hex(folder, "vendor"), _hex(folder, "device")
    ids = f"{vendor}:{device}"
    revision = f"(rev {_hex(folder, 'revision')})"
    if numbers == 1:
        return f"{kind}: {ids} {revision}"
    name = VENDORS.get(vendor, "Broadcom / LSI")
    name += f" {state.hardware()['model']['pci_name']}" if vendor == "10de" else f" Device {device}"
    title = CLASSES[kind]
    if numbers:
        return f"{title} [{kind}]: {name} [{ids}] {revision}"
    return f"{title}: {name} {revision}"


def _details(folder: Path) -> str:
    speed = _read(folder, "current_link_speed").split()[0].removesuffix(".0")
    top = _read(folder, "max_link_speed").split()[0].removesuffix(".0")
    width, most = _read(folder, "current_link_width"), _read(folder, "max_link_width")
    down = " (downgraded)" if speed != top else ""
    lines = [
        f"\tNUMA node: {_read(folder, 'numa_node')}",
        f"\t\tLnkCap:\tPort #0, Speed {top}GT/s, Width x{most}",
        f"\t\tLnkSta:\tSpeed {speed}GT/s{down}, Width x{width}",
    ]
    space = (folder / "config").read_bytes()
    if space[0x100] == 0x0D:
        control = int.from_bytes(space[0x106:0x108], "little")
        flags = (f"{flag}{'+' if control >> bit & 1 else '-'}" for bit, flag in enumerate(ACS))
        lines.append("\tCapabilities: [100 v1] Access Control Services")
        lines.append(f"\t\tACSCtl:\t{' '.join(flags)}")
    return "\n".join(lines) + "\n"
