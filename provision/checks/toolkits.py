"""Every wanted toolkit's nvcc answers, in its own folder; `cuda` means one of them or nothing."""

from __future__ import annotations

from provision.checks.finding import Action, Finding, judge, unknown
from provision.facts import Facts, Toolkits, Unknown
from provision.want import Want


def check(want: Want, facts: Facts) -> list[Finding]:
    wanted = want.stack.toolkit
    if not isinstance(facts.toolkits, Toolkits):
        reason = facts.toolkits.reason if isinstance(facts.toolkits, Unknown) else "none there"
        return [
            unknown("toolkit", f"CUDA {release}", expected=release, reason=reason)
            for release in wanted
        ]
    rows = [_row(release, facts.toolkits.installed.get(release)) for release in wanted]
    return [*rows, _default(list(wanted), facts.toolkits.default)]


def _default(wanted: list[str], path: str | None) -> Finding:
    """What builds that ask for no toolkit by name would take."""
    release = (path or "").partition("/cuda-")[2]
    return judge(
        "toolkit.default",
        "/usr/local/cuda",
        path is None or release in wanted,
        expected=f"CUDA {' or '.join(wanted)}",
        observed=path or "nothing",
        action=Action.INSPECT,
        reason="builds that don't set CUDA_HOME take it: update-alternatives --config cuda",
        noun="means",
    )


def _row(release: str, nvcc: str | None) -> Finding:
    fits = nvcc is not None and nvcc.startswith(f"{release}.")
    return Finding(
        id="toolkit",
        subject=f"CUDA {release}",
        expected=f"nvcc {release}",
        observed=f"nvcc {nvcc}" if nvcc else "no nvcc",
        action=Action.NONE if fits else Action.PROVISION,
        reason="" if fits else f"/usr/local/cuda-{release} is missing or damaged",
        noun="has",
    )
