"""A situation as data: what is wanted, what the probe said, what planning must make of it.

want.toml      the stack, and what the inventory sets apart; `wheels` that were built for it;
               `rollback = "driver"` for the driver that the facts say was kept
facts.json     the probe's JSON; or {"like": NAME, "but": {collector: answer}}: another
               scenario's facts, of which some answers differ ("value" is merged in)
expected.json  the first round in full, the later ones by their changes' ids
after.json     the probe's JSON once the cause is gone or the plan is carried out, likewise
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provision import promises, rollback, stack
from provision.facts import parse
from provision.inventory import Gpus, Site
from provision.plan import Change, Plan
from provision.report import action_lines
from provision.stack import Repository
from provision.want import Want
from provision.wheelhouse import Manifest

FOLDER = Path(__file__).parent
FILES = ("want.toml", "facts.json", "expected.json", "after.json")


@dataclass(frozen=True)
class Scenario:
    """One folder, read."""

    name: str
    want: Want
    facts: dict[str, Any]
    expected: dict[str, Any]
    after: dict[str, Any]


def names() -> list[str]:
    """All scenarios: every folder here is one, complete or not."""
    return sorted(p.name for p in FOLDER.iterdir() if p.is_dir() and p.name[0] not in "_.")


def load(name: str) -> Scenario:
    """Read a scenario; a file that is missing is an error."""
    folder = FOLDER / name
    facts = _probe(f"{name}/facts.json")
    return Scenario(
        name,
        _want(tomllib.loads((folder / "want.toml").read_text()), facts),
        facts,
        json.loads((folder / "expected.json").read_text()),
        _probe(f"{name}/after.json"),
    )


def outline(plan: Plan) -> dict[str, Any]:
    """A plan as expected.json has it."""
    return {
        "now": [_change(change) for change in plan.now.changes],
        "then": [[change.id for change in one.changes] for one in plan.rounds[1:]],
        "awaited": [f"{change.subject}: {change.after}" for change in plan.awaited],
    }


def _change(change: Change) -> dict[str, Any]:
    if change.blocked:
        return {"id": change.id, "blocked": change.blocked, "hint": change.hint}
    lines = [line for action in change.actions for line in action_lines(action, whole=False)]
    row = {"id": change.id, "before": change.before, "after": change.after, "actions": lines}
    return row | ({"reboots": True} if change.reboots else {})


def _want(data: dict[str, Any], seen: dict[str, Any]) -> Want:
    repository = data.get("repository")
    want = Want(
        stack=stack.load(data["stack"]),
        uv=stack.load_uv(),
        gpus=Gpus(**data["gpus"]) if "gpus" in data else None,
        repository=Repository(**repository) if repository else None,
        site=Site(**data.get("site", {})),
        wheelhouse=tuple(Manifest(**wheel) for wheel in data.get("wheels", ())),
    )
    return rollback.driver("h", want, parse(seen)) if "rollback" in data else want


def _probe(file: str) -> dict[str, Any]:
    data = json.loads((FOLDER / file).read_text())
    if "like" not in data:
        return data
    probe = _probe(data["like"])
    for collector, answer in data.get("but", {}).items():
        if "status" in answer:
            probe["facts"][collector] = answer
        else:
            probe = promises.merge(probe, {collector: answer["value"]})
    return probe
