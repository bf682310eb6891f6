"""The services that GPUs need run, and start by themselves."""

from __future__ import annotations

from provision.checks.finding import Action, Finding, compare, unknown
from provision.facts import Facts, Unknown
from provision.resources.persistence import UNIT, WANTED
from provision.want import Want


def check(want: Want, facts: Facts) -> list[Finding]:  # noqa: ARG001 - every check has both
    expected = f"{WANTED.active}, {WANTED.enabled}"
    if not isinstance(facts.units, dict):
        reason = facts.units.reason if isinstance(facts.units, Unknown) else "no systemd"
        return [unknown("service", UNIT, expected=expected, reason=reason)]
    unit = facts.units.get(UNIT)
    return [
        compare(
            "service",
            UNIT,
            expected=expected,
            observed=f"{unit.active}, {unit.enabled}" if unit else "no such unit",
            action=Action.RESTART,
            reason=f"see: journalctl --unit {UNIT}",
            noun="is",
        )
    ]
