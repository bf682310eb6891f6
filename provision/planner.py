"""plan(want, facts) → Plan: asks every resource, in order, what differs."""

from __future__ import annotations

from provision import resources
from provision.errors import ProvisionError
from provision.facts import Facts, Json, parse
from provision.plan import Change, Plan, Round, Stage
from provision.promises import merge
from provision.resources.known import NotKnown
from provision.want import Want

ROUND_LIMIT = 8
"""A bare host takes four rounds; promises that do not end within this are a fault of ours."""


def plan(host: str, want: Want, raw: Json) -> Plan:
    """What leads from the probe's JSON to the want; pure.

    Raises ProvisionError when the promises of the changes never lead to an empty plan.
    """
    rounds: list[Round] = []
    seen = parse(raw)
    awaited = tuple(c for r in resources.ORDER for c in _ask(r, want, seen) if c.awaited)
    one = _round(want, raw)
    while one.changes:
        if len(rounds) == ROUND_LIMIT:
            again = ", ".join(change.id for change in one.changes)
            raise ProvisionError(f"{host}: planning does not end, still to do: {again}")
        rounds.append(one)
        if not one.actionable:
            break
        raw = merge(raw, *(change.makes for change in one.changes))
        one = _round(want, raw)
    return Plan(host=host, stack=want.stack.name, rounds=tuple(rounds), awaited=awaited)


def _round(want: Want, raw: Json) -> Round:
    """The changes of the first stage that has any.

    Within it each resource plans from the facts that the changes before it promise.
    """
    seen = parse(raw)
    for stage in Stage:
        changes: list[Change] = []
        for resource in resources.ORDER:
            if stage != resource.STAGE:
                continue
            found = [change for change in _ask(resource, want, seen) if not change.awaited]
            changes += found
            if promised := [change.makes for change in found if change.makes]:
                raw = merge(raw, *promised)
                seen = parse(raw)
        if changes:
            return Round(changes=tuple(changes))
    return Round(changes=())


def _ask(resource: resources.Resource, want: Want, seen: Facts) -> list[Change]:
    try:
        return resource.plan(want, seen)
    except NotKnown as reason:
        return [
            Change(
                resource=resource.NAME,
                subject=reason.subject,
                stage=resource.STAGE,
                before="unknown",
                after="unknown",
                why="it can't be planned",
                blocked=str(reason),
                hint=reason.hint,
            )
        ]
