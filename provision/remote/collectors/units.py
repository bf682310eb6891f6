"""Whether systemd's units are there, running and enabled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from provision.remote.command import Failed, Missing, output
from provision.remote.probe import Query

NAME = "units"
PROPERTIES = ("Id", "LoadState", "ActiveState", "UnitFileState")


def collect(query: Query) -> dict[str, Any]:
    names: list[str] = query["units"]
    if not Path("/run/systemd/system").is_dir():
        raise Missing("systemd does not run")
    if not names:
        return {}
    show = ["systemctl", "show", f"--property={','.join(PROPERTIES)}", "--", *names]
    return parse_units(names, output(show))


def parse_units(names: list[str], text: str) -> dict[str, Any]:
    """Units in the order asked for: an alias answers with another unit's Id."""
    blocks = [_block(part) for part in text.strip().split("\n\n")]
    if len(blocks) != len(names):
        raise Failed(f"systemctl describes {len(blocks)} of {len(names)} units")
    return {name: _unit(name, block) for name, block in zip(names, blocks)}  # noqa: B905 - same length, above


def _block(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value for name, _, value in pairs}


def _unit(name: str, block: dict[str, str]) -> dict[str, str] | None:
    """None where systemd knows no such unit; a generated one has no state of enablement: ''."""
    if missing := [one for one in PROPERTIES if one not in block]:
        raise Failed(f"systemctl states no {' and no '.join(missing)} of {name}")
    if block["LoadState"] == "not-found":
        return None
    return {"active": block["ActiveState"], "enabled": block["UnitFileState"]}
