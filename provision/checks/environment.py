"""Every environment holds exactly what its lock says."""

from __future__ import annotations

from provision.checks.finding import Action, Finding, compare, unknown
from provision.facts import Facts, Unknown
from provision.want import Want


def check(want: Want, facts: Facts) -> list[Finding]:
    rows = []
    for name, lock in want.stack.locks.items():
        if not isinstance(facts.environments, dict):
            answer = facts.environments
            reason = answer.reason if isinstance(answer, Unknown) else "no environments"
            rows.append(unknown("environment", name, expected="its lock", reason=reason))
            continue
        there = facts.environments.get(name)
        have = {n: v for n, v in there.distributions.items() if v} if there else {}
        same = sum(have.get(name) == version for name, version in lock.versions.items())
        rows.append(
            compare(
                "environment",
                name,
                expected=f"{len(lock.versions)} distributions as locked",
                observed=f"{same} distributions as locked{_extra(have, lock.versions)}",
                action=Action.PROVISION,
                reason="the environment has drifted from its lock",
            )
        )
    return rows


def _extra(have: dict[str, str], locked: dict[str, str]) -> str:
    extra = sorted(have.keys() - locked.keys())
    return f", and {', '.join(extra)}" if extra else ""
