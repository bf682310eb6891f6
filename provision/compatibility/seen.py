"""What the rules read of a host, or why they can't."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TypeVar

from packaging.version import Version

from provision.compatibility.row import Unseen
from provision.facts import Absent, Apt, Facts, Os, Unknown
from provision.want import Want

T = TypeVar("T")
NO_HOST = Unseen("it is the host's; name one with --host")
MAJOR = re.compile(r"[0-9]{1,4}")
"""Of a compiler's version."""
DISPLAY = ("0300", "0302")
"""PCI classes of GPUs, with and without a display output (PCI ID registry)."""


def os(facts: Facts | None) -> Os | Unseen:
    """The host's system."""
    return _value("os", facts.os) if facts else NO_HOST


def glibc(facts: Facts | None) -> tuple[Version, str] | Unseen:
    """The host's glibc: its version, and in words."""
    found = os(facts)
    if isinstance(found, Unseen):
        return found
    name, _, version = found.libc.partition(" ")
    if name != "glibc":
        return Unseen(f"the host has {found.libc or 'no C library that we know'}")
    try:
        return Version(version.split("-")[0]), f"{found.libc} ({found.name})"
    except ValueError:  # also of a number that has no end
        return Unseen(f"{found.libc!r} states no version")


def gcc(facts: Facts | None) -> tuple[int, str] | Unseen:
    """The major and the full version of gcc: the one there, else the one that apt would install."""
    if facts is None:
        return NO_HOST
    there = _value("compilers", facts.compilers)
    if isinstance(there, Unseen):
        return there
    version = there.get("gcc")
    if version is None and isinstance(facts.apt, Apt) and "gcc" in facts.apt.policy:
        version = (facts.apt.policy["gcc"].candidate or "").rpartition(":")[2].partition("-")[0]
    major = (version or "").partition(".")[0]
    return (int(major), str(version)) if MAJOR.fullmatch(major) else Unseen("there is no gcc yet")


def gpus(want: Want, facts: Facts | None) -> dict[str, str | None]:
    """The GPUs' names, or what else is known of them → their compute capability.

    Named by nvidia-smi; without a driver by their PCI ids; else by what the inventory expects.
    """
    table = want.stack.system.architecture
    devices = {device: name for name, one in table.items() for device in one.devices}
    if facts and isinstance(facts.gpus, list) and facts.gpus:
        return {gpu.name: _capability(want, gpu.name) for gpu in facts.gpus}
    if facts and isinstance(facts.pci, list):
        ids = [one.device for one in facts.pci if one.kind in DISPLAY]
        if ids and all(one in devices for one in ids):
            return {one: devices[one] for one in ids}
    return {want.gpus.model: _capability(want, want.gpus.model)} if want.gpus else {}


def _capability(want: Want, model: str) -> str | None:
    table = want.stack.system.architecture.items()
    named = (name for name, one in table for wanted in one.models if fnmatchcase(model, wanted))
    return next(named, None)


def _value(name: str, answer: T | Absent | Unknown) -> T | Unseen:
    if isinstance(answer, Unknown | Absent):
        return Unseen(f"{name}: {answer.reason or 'not on this host'}")
    return answer
