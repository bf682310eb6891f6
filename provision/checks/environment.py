"""Every environment holds exactly what its lock and the wheels of our own say, unchanged."""

from __future__ import annotations

from provision.checks.finding import Action, Finding, compare, judge, unknown
from provision.compatibility.python import windows
from provision.facts import Absent, Environment, Facts, Os, Unknown
from provision.interpreter import interpreter
from provision.want import Want


def check(want: Want, facts: Facts) -> list[Finding]:
    rows = []
    for name, environment in want.stack.environment.items():
        if not (isinstance(facts.environments, dict) and isinstance(facts.os, Os)):
            unseen = (a for a in (facts.environments, facts.os) if isinstance(a, Unknown | Absent))
            reason = next(unseen).reason or "no environments"
            rows.append(unknown("environment", name, expected="its lock", reason=reason))
            continue
        locked = want.stack.locks[name].versions(interpreter(environment, facts.os).version)
        there = facts.environments.get(name)
        ours = there.wheels if there else {}
        have = {n: v for n, v in there.distributions.items() if v} if there else {}
        same = sum(have.get(name) == version for name, version in locked.items())
        extra = sorted(have.keys() - locked.keys() - ours.keys())
        rows.append(
            compare(
                "environment",
                name,
                expected=f"{len(locked)} distributions as locked",
                observed=f"{same} distributions as locked"
                + (f", and {', '.join(extra)}" if extra else ""),
                action=Action.PROVISION,
                reason=(there.broken if there else None)
                or "the environment has drifted from its lock",
                noun="has",
            )
        )
        rows += _files(name, there) if there and there.release else []
        rows += _numba(name, have)
    return rows


def _numba(name: str, have: dict[str, str]) -> list[Finding]:
    """What is on the host, whatever the lock says: vLLM imports numba whenever it starts."""
    mine, theirs = have.get("numba", ""), have.get("numpy")
    end = windows().get(".".join(mine.split(".")[:2]))
    if not theirs or not end:
        return []
    return [
        judge(
            "environment.numba",
            name,
            series(theirs) < series(end),
            expected=f"below {end} for numba {mine}",
            observed=theirs,
            action=Action.PROVISION,
            reason="Numba refuses it when it is imported, and vLLM with it",
            noun="NumPy",
        )
    ]


def series(version: str) -> tuple[int, ...]:
    """Major and minor, which are all that Numba compares; the host said it, so it may be odd."""
    return tuple(int(part) if part.isdigit() else 0 for part in version.split(".")[:2])


def _files(name: str, there: Environment) -> list[Finding]:
    named = ", ".join(f"{one.path} {one.what}" for one in there.changes[:3])
    more = f" and {len(there.changes) - 3} more" if len(there.changes) > 3 else ""
    return [
        compare(
            "environment.files",
            f"{name} {there.release}",
            expected="as sealed",
            observed="as sealed" if there.intact else f"{named or 'changed'}{more}",
            action=Action.PROVISION,
            reason="files of a sealed release were changed by hand or by another tool",
        )
    ]
