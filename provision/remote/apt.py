"""What apt would do, asked of apt itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from provision.remote.apt_says import Trouble, diagnose
from provision.remote.command import run

INSTALL = re.compile(r"^Inst (\S+) (?:\[(\S+)\] )?\((\S+) ", re.MULTILINE)
REMOVE = re.compile(r"^(?:Remv|Purg) (\S+) \[(\S+)\]", re.MULTILINE)


def simulate(argv: Sequence[str]) -> dict[str, Any]:
    """Ask apt what a transaction would do; nothing is changed."""
    said = run([argv[0], "--simulate", *argv[1:]], timeout=120.0)
    if said.exit:
        text = said.out + said.err
        trouble = diagnose(text) or Trouble(parse_error(text), hint="")
        return {"install": {}, "remove": {}, "error": trouble.reason, "hint": trouble.hint}
    return {**parse(said.out), "error": None, "hint": ""}


def parse(text: str) -> dict[str, Any]:
    """Packages that would be installed (version now, afterwards) and removed."""
    return {
        "install": {name: [old or None, new] for name, old, new in INSTALL.findall(text)},
        "remove": dict(REMOVE.findall(text)),
    }


def parse_error(text: str) -> str:
    """apt's refusal in one line: its errors."""
    errors = [line.removeprefix("E: ") for line in text.splitlines() if line.startswith("E: ")]
    return "; ".join(errors) or text.strip()[-500:] or "apt gave no reason"


def beyond(said: Mapping[str, Any], allowed: Mapping[str, Any]) -> list[str]:
    """What a simulated transaction does that the plan did not show; [] when nothing."""
    more = [
        f"installs {name} {new}"
        for name, (_, new) in said["install"].items()
        if allowed["install"].get(name, [None, None])[1] != new
    ]
    more += [
        f"removes {name} {version}"
        for name, version in said["remove"].items()
        if name not in allowed["remove"]
    ]
    return more
