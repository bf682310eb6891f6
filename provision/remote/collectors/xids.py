"""What the driver reported to the kernel's log in this boot: its "Xid" lines.

The journal keeps them when the kernel's own buffer has long wrapped; where it has none, in a
container or without systemd, that buffer is asked.
"""

from __future__ import annotations

import re
from typing import Any

from provision.remote.command import Missing, output, run
from provision.remote.probe import Query

NAME = "xids"
JOURNAL = ("journalctl", "--dmesg", "--boot", "--output=cat", "--no-pager", "--grep=NVRM: Xid")
LINE = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)(.*)")
LONG = 300
"""Characters of a report that are kept."""


def collect(_query: Query) -> list[dict[str, Any]]:
    return parse_xids(_journal()) or parse_xids(output(["dmesg"]))


def _journal() -> str:
    """'' also where journalctl finds nothing: it then exits 1."""
    try:
        return run(JOURNAL).out
    except Missing:
        return ""


def parse_xids(text: str) -> list[dict[str, Any]]:
    """One row for each kind of report of each GPU, with the last of them."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for slot, code, rest in LINE.findall(text):
        key = (slot.lower(), int(code))
        count = found[key]["count"] + 1 if key in found else 1
        said = f"{code}{rest}".strip()[:LONG]
        found[key] = {"slot": key[0], "code": key[1], "count": count, "text": said}
    return list(found.values())
