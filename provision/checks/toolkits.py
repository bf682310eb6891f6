"""Every wanted toolkit's nvcc answers, in its own folder; `cuda` means one of them or nothing.

And the three CUDAs of a host side by side: the newest that its driver runs, which nvidia-smi shows
and many take for the toolkit's; the toolkits', with which extensions are built; and the one that
each torch brings with it. None follows from another.
"""

from __future__ import annotations

from provision.checks.finding import Action, Finding, judge, unknown, unseen
from provision.compatibility import torch
from provision.facts import Absent, Environment, Facts, Nvml, Toolkits, Unknown
from provision.want import Want

DIGITS = 5
"""More has no release's number."""


def check(want: Want, facts: Facts) -> list[Finding]:
    return [*_toolkits(want, facts), _three(facts)]


def _toolkits(want: Want, facts: Facts) -> list[Finding]:
    wanted = want.stack.toolkit
    if not isinstance(facts.toolkits, Toolkits):
        reason = facts.toolkits.reason if isinstance(facts.toolkits, Unknown) else "none there"
        return [
            unknown("toolkit", f"CUDA {release}", expected=release, reason=reason)
            for release in wanted
        ]
    rows = [_row(release, facts.toolkits.installed.get(release)) for release in wanted]
    return [*rows, _default(list(wanted), facts.toolkits.default)]


def _three(facts: Facts) -> Finding:
    """The driver's is of no older major than what is built and run on it (CUDA compatibility
    guide: a driver of a major runs all its minor versions)."""
    answers = facts.nvml, facts.toolkits, facts.environments
    nvml, toolkits, environments = answers
    if not (
        isinstance(nvml, Nvml)
        and isinstance(toolkits, Toolkits)
        and isinstance(environments, dict)
        and nvml.cuda
    ):
        hidden = next((one for one in answers if isinstance(one, Unknown | Absent)), nvml)
        reason = hidden.message if isinstance(hidden, Nvml) else unseen(hidden)
        silent = "nvidia-smi states no CUDA version"
        return unknown("cuda", "host", expected="all three", reason=reason or silent, noun="CUDA")
    built = sorted((name for name, nvcc in toolkits.installed.items() if nvcc), key=_major)
    torches = _torches(environments)
    brought = ", ".join(f"{cuda or 'without CUDA'} ({name})" for name, cuda in torches.items())
    needed = max(map(_major, [*built, *filter(None, torches.values())]), default=0)
    return judge(
        "cuda",
        "host",
        _major(nvml.cuda) >= needed,
        expected=f"a driver up to {needed}",
        observed=f"driver up to {nvml.cuda}, toolkits {', '.join(built) or 'none'}, "
        f"torch {brought or 'in no environment'}",
        action=Action.PROVISION,
        reason="CUDA driver version is insufficient for CUDA runtime version",
        noun="CUDA",
    )


def _torches(environments: dict[str, Environment | None]) -> dict[str, str | None]:
    """Environment → the CUDA that its torch brings with it; those that have a torch."""
    there = {
        name: {n: version for n, version in one.distributions.items() if version}
        for name, one in environments.items()
        if one
    }
    return {name: torch.cuda(versions) for name, versions in there.items() if "torch" in versions}


def _major(release: str) -> int:
    """Of a CUDA release; the host said it, so it may be odd."""
    major = release.partition(".")[0]
    return int(major) if major.isdecimal() and len(major) < DIGITS else 0


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
