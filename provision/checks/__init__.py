"""checks(want, facts) → findings: is the host what it should be? Pure; touches nothing."""

from __future__ import annotations

from provision.checks import (
    access,
    capacity,
    cuda,
    driver,
    environment,
    gpus,
    health,
    machine,
    multi_gpu,
    services,
    toolkits,
    xids,
)
from provision.checks.finding import STATE, Action, Finding
from provision.facts import Facts
from provision.plan import Change, Plan
from provision.want import Want

ORDER = (
    *(driver, gpus, capacity, health, xids, multi_gpu, access),
    *(toolkits, cuda, environment, services, machine),
)


def check(want: Want, facts: Facts, plan: Plan) -> list[Finding]:
    """Every row: the state that planning sees, then what the host itself answers."""
    return [*drift(plan), *(row for module in ORDER for row in module.check(want, facts))]


def _action(change: Change) -> Action:
    if change.awaited:
        return Action.BUILD
    return Action.INSPECT if change.blocked else Action.PROVISION


def _awaited(change: Change) -> str:
    return f"{change.awaited}: {change.hint}" if change.awaited and change.hint else change.awaited


def drift(plan: Plan) -> list[Finding]:
    """Each change that planning would make is a difference; so is what is awaited."""
    rows = [
        Finding(
            id=f"{STATE}{change.resource}",
            subject=change.subject,
            expected=change.after,
            observed=change.before,
            action=_action(change),
            reason=change.blocked or _awaited(change) or change.why,
            noun="is",
        )
        for change in (*plan.now.changes, *plan.awaited)
    ]
    if plan.empty:
        rows.insert(
            0,
            Finding(
                id="state",
                subject=plan.stack,
                expected="nothing to do",
                observed="nothing to do",
                action=Action.NONE,
            ),
        )
    return rows
