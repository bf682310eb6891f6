"""Which kernel runs, which one the next boot takes, and which boot this is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from provision.remote.collectors.reading import names, need
from provision.remote.collectors.versions import Key, key
from provision.remote.probe import Query

NAME = "boot"
IMAGE = "vmlinuz-"
LEFTOVERS = (".old", ".bak", ".dpkg-new", ".dpkg-tmp", ".dpkg-bak")
"""Suffixes of images that GRUB sorts behind their namesakes or never lists."""


def collect(_query: Query) -> dict[str, Any]:
    return {
        "id": need("/proc/sys/kernel/random/boot_id"),
        "kernel": need("/proc/sys/kernel/osrelease"),
        "next_kernel": newest(names("/boot")),
        "cmdline": need("/proc/cmdline"),
        "uptime": parse_uptime(need("/proc/uptime")),
    }


def newest(files: Iterable[str]) -> str | None:
    """The kernel that GRUB's first entry boots, from the names in /boot."""
    releases = [name[len(IMAGE) :] for name in files if _bootable(name)]
    return max(releases, key=_order, default=None)


def _bootable(name: str) -> bool:
    return name.startswith(IMAGE) and not name.endswith(LEFTOVERS)


def _order(release: str) -> Key:
    """A release candidate comes before its release, as in GRUB's version_test_gt."""
    return key(release.replace("-rc", "~rc"))


def parse_uptime(text: str) -> float:
    """Seconds since boot, the first number of /proc/uptime."""
    return float(text.split()[0])
