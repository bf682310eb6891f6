"""Which kernel runs, which one the next boot takes, and which boot this is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from provision.remote.collectors.reading import names, need, read
from provision.remote.collectors.versions import Key, key
from provision.remote.probe import Query

NAME = "boot"
IMAGE = "vmlinuz-"
INHIBIT = Path("/run/systemd/inhibit")
"""A file of KEY=VALUE lines for each inhibitor that logind holds."""
LEFTOVERS = (".old", ".bak", ".dpkg-new", ".dpkg-tmp", ".dpkg-bak")
"""Suffixes of images that GRUB sorts behind their namesakes or never lists."""


def collect(_query: Query) -> dict[str, Any]:
    return {
        "id": need("/proc/sys/kernel/random/boot_id"),
        "kernel": need("/proc/sys/kernel/osrelease"),
        "next_kernel": newest(names("/boot")),
        "cmdline": need("/proc/cmdline"),
        "uptime": parse_uptime(need("/proc/uptime")),
        "inhibitors": _inhibitors(),
    }


def _inhibitors() -> list[str]:
    """Beside each lies a pipe, its `.ref`, that nobody ever writes to: reading it would hang."""
    files = [name for name in names(INHIBIT) if not name.endswith(".ref")]
    found = [parse_inhibitor(read(INHIBIT / name) or "") for name in files]
    return [one for one in found if one]


def newest(files: Iterable[str]) -> str | None:
    """The kernel that GRUB's first entry boots, from the names in /boot."""
    releases = [name[len(IMAGE) :] for name in files if _bootable(name)]
    return max(releases, key=_order, default=None)


def _bootable(name: str) -> bool:
    return name.startswith(IMAGE) and not name.endswith(LEFTOVERS)


def _order(release: str) -> Key:
    """A release candidate comes before its release, as in GRUB's version_test_gt."""
    return key(release.replace("-rc", "~rc"))


def parse_inhibitor(text: str) -> str | None:
    """Who forbids a shutdown and why; None where it is about something else, or only a delay."""
    fields = dict(line.partition("=")[::2] for line in text.splitlines())
    if "shutdown" not in fields.get("WHAT", "").split(":") or fields.get("MODE") != "block":
        return None
    return f"{_unescaped(fields.get('WHO', '?'))} ({_unescaped(fields.get('WHY', '?'))})"


def _unescaped(text: str) -> str:
    """As systemd's cescape wrote it, for what people name themselves: octal and hex bytes."""
    return re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), text)


def parse_uptime(text: str) -> float:
    """Seconds since boot, the first number of /proc/uptime."""
    return float(text.split()[0])
