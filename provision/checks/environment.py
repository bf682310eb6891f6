"""Every environment holds exactly what its lock and the wheels of our own say, unchanged."""

from __future__ import annotations

from collections.abc import Iterable

from provision.checks.finding import Action, Finding, compare, judge, unknown, unseen
from provision.compatibility import seen
from provision.compatibility.python import windows
from provision.facts import Absent, Environment, Facts, Os, Unknown
from provision.interpreter import interpreter
from provision.want import Want

UNPROVED = (
    "nobody looked for such kernels when the release was sealed: `invoke verify --active` has the "
    "GPUs compute"
)


def check(want: Want, facts: Facts) -> list[Finding]:
    rows = []
    for name, environment in want.stack.environment.items():
        if not (isinstance(facts.environments, dict) and isinstance(facts.os, Os)):
            hidden = (a for a in (facts.environments, facts.os) if isinstance(a, Unknown | Absent))
            reason = next(hidden).reason or "no environments"
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
                reason=_why(there),
                noun="has",
            )
        )
        if there and there.release:
            rows += [*_files(name, there), _extensions(want, facts, name, there)]
        rows += _numba(name, have)
    return rows


def _why(there: Environment | None) -> str:
    if there is None or there.release is None:
        return "there is none yet"
    return there.broken or "the environment has drifted from its lock"


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


def _extensions(want: Want, facts: Facts, name: str, there: Environment) -> Finding:
    """Every CUDA extension fits the torch beside it, and has kernels for these GPUs.

    Both were proved from all files when the release was sealed, the kernels for the GPUs that
    answered then: what is unchanged since is still proved, and nothing is read again.
    """
    about = ("environment.extensions", f"{name} {there.release}")
    if not (isinstance(facts.gpus, list) and facts.gpus):
        reason = unseen(facts.gpus)
        return unknown(*about, expected="proved for the GPUs", reason=reason, noun="extensions")
    needed = {arch or model for model, arch in seen.gpus(want, facts).items()}
    state = "unchanged" if there.intact else "changed"
    return judge(
        *about,
        there.intact and needed <= there.proved.keys(),
        expected=f"unchanged since they were proved for {_listed(needed)}",
        observed=f"{state} since they were proved for {_listed(there.proved)}, at the sealing",
        action=Action.INSPECT if there.intact else Action.PROVISION,
        reason=UNPROVED if there.intact else "the proof was of the files as they were",
        noun="extensions",
    )


def _listed(archs: Iterable[str]) -> str:
    return " and ".join(sorted(archs)) or "no GPU"


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
