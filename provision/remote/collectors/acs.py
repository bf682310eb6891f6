"""Whether bridges above the GPUs send peer-to-peer traffic up to the root complex (ACS).

Access Control Services are an extended capability of a bridge's configuration space: PCI Express
Base Specification, 7.7.11; the bits are PCI_ACS_RR and PCI_ACS_CR of linux/pci_regs.h.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from provision.remote.collectors.pci import BUS, NVIDIA
from provision.remote.collectors.reading import read
from provision.remote.command import Failed, Missing
from provision.remote.probe import Query

NAME = "acs"
SLOT = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
EXTENDED = 0x100
"""Where the list of extended capabilities begins."""
CAPABILITY = 0x000D
CONTROL = 6
"""Offset of the control register in the capability."""
REDIRECT = 0x04 | 0x08
"""Requests, and what completes them, go up instead of across."""


def collect(_query: Query) -> dict[str, bool]:
    if not BUS.is_dir():
        raise Missing("no PCI bus")
    return {slot: redirects((BUS / slot / "config").read_bytes()) for slot in above(BUS)}


def above(bus: Path) -> list[str]:
    """Addresses of all bridges between NVIDIA's devices and the root, by the paths in sysfs."""
    paths = [
        os.path.realpath(path)
        for path in bus.iterdir()
        if read(path / "vendor") == f"0x{NVIDIA}" and (read(path / "class") or "")[:4] == "0x03"
    ]
    found = {part for path in paths for part in path.split("/")[:-1] if SLOT.fullmatch(part)}
    return sorted(found)


def redirects(space: bytes) -> bool:
    """What a configuration space says; a bridge without the capability redirects nothing."""
    if len(space) <= EXTENDED:
        raise Failed("the kernel shows only the beginning of the configuration space: be root")
    at, seen = EXTENDED, set()
    while EXTENDED <= at <= len(space) - CONTROL - 2 and at not in seen:
        seen.add(at)
        header = int.from_bytes(space[at : at + 4], "little")
        if header & 0xFFFF == CAPABILITY:
            control = int.from_bytes(space[at + CONTROL : at + CONTROL + 2], "little")
            return bool(control & REDIRECT)
        at = header >> 20
    return False
