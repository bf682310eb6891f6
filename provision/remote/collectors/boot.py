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
PIPE = ".ref"
"""Suffix of the pipe beside each, which stays open as long as it holds: never to be read."""
LEFTOVERS = (".old", ".bak", ".dpkg-new", ".dpkg-tmp", ".dpkg-bak")
"""Suffixes of images that GRUB sorts behind their namesakes or never lists."""


def collect(_query: Query) -> dict[str, Any]:
    return {
        "id": need("/proc/sys/kernel/random/boot_id"),
        "kernel": need("/proc/sys/kernel/osrelease"),
        "next_kernel": newest(names("/boot")),
        "cmdline": need("/proc/cmdline"),
        "uptime": parse_uptime(need("/proc/uptime")),
        "inhibitors": inhibitors(INHIBIT),
    }


def inhibitors(folder: Path) -> list[str]:
    """Everybody who forbids a shutdown, and why."""
    texts = [read(folder / name) for name in names(folder) if not name.endswith(PIPE)]
    return [line for text in texts if (line := parse_inhibitor(text or ""))]


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
    """As people wrote it: systemd escapes that as C does, newer ones quote it as a shell does."""
    if text.startswith('"'):
        text = re.sub(r'\\(["\\$`])', r"\1", text[1:-1])
    characters = text.encode().decode("unicode_escape", "replace")
    return characters.encode("latin-1", "replace").decode("utf-8", "replace")


def parse_uptime(text: str) -> float:
    """Seconds since boot, the first number of /proc/uptime."""
    return float(text.split()[0])
