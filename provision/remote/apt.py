"""What apt would do, asked of apt itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from provision.remote.command import run
from provision.remote.masked import masked

INSTALL = re.compile(r"^Inst (\S+) (?:\[(\S+)\] )?\((\S+) ", re.MULTILINE)
REMOVE = re.compile(r"^(?:Remv|Purg) (\S+) \[(\S+)\]", re.MULTILINE)
UNMET = re.compile(r"^ .*(?:Depends|PreDepends|Conflicts|Breaks|Recommends): .*$", re.MULTILINE)


def simulate(argv: Sequence[str]) -> dict[str, Any]:
    """Ask apt what a transaction would do; nothing is changed."""
    said = run([argv[0], "--simulate", *argv[1:]], timeout=120.0)
    if said.exit:
        return {"install": {}, "remove": {}, "error": parse_error(said.out + said.err)}
    return {**parse(said.out), "error": None}


def parse(text: str) -> dict[str, Any]:
    """Packages that would be installed (version now, afterwards) and removed."""
    return {
        "install": {name: [old or None, new] for name, old, new in INSTALL.findall(text)},
        "remove": dict(REMOVE.findall(text)),
    }


def parse_error(text: str) -> str:
    """apt's refusal in one line: its errors, and the unmet dependencies they mean."""
    errors = [line.removeprefix("E: ") for line in text.splitlines() if line.startswith("E: ")]
    unmet = [" ".join(line.split()) for line in UNMET.findall(text)]
    said = "; ".join([*errors, *unmet[:5]]) or text.strip()[-500:] or "apt gave no reason"
    return masked(said)


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
