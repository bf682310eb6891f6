"""Every environment holds exactly what its lock says."""

from __future__ import annotations

from provision.checks.finding import Action, Finding, compare, unknown
from provision.facts import Absent, Facts, Os, Unknown
from provision.want import Want


def check(want: Want, facts: Facts) -> list[Finding]:
    rows = []
    for name, lock in want.stack.locks.items():
        if not (isinstance(facts.environments, dict) and isinstance(facts.os, Os)):
            unseen = (a for a in (facts.environments, facts.os) if isinstance(a, Unknown | Absent))
            reason = next(unseen).reason or "no environments"
            rows.append(unknown("environment", name, expected="its lock", reason=reason))
            continue
        locked = lock.versions(facts.os.python.version)
        there = facts.environments.get(name)
        have = {n: v for n, v in there.distributions.items() if v} if there else {}
        same = sum(have.get(name) == version for name, version in locked.items())
        rows.append(
            compare(
                "environment",
                name,
                expected=f"{len(locked)} distributions as locked",
                observed=f"{same} distributions as locked{_extra(have, locked)}",
                action=Action.PROVISION,
                reason="the environment has drifted from its lock",
            )
        )
    return rows


def _extra(have: dict[str, str], locked: dict[str, str]) -> str:
    extra = sorted(have.keys() - locked.keys())
    return f", and {', '.join(extra)}" if extra else ""
