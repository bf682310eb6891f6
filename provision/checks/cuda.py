"""The three CUDAs of a host side by side, none of which follows from another.

The newest that its driver runs, which nvidia-smi shows and many take for the toolkit's; the
toolkits', with which extensions are built; and the one that each torch brings with it. The driver's
is of no older major than the others: it runs all minor versions of a major (CUDA compatibility
guide).
"""

from __future__ import annotations

from provision.checks.finding import Action, Finding, judge, unknown, unseen
from provision.compatibility import torch
from provision.facts import Absent, Environment, Facts, Nvml, Toolkits, Unknown
from provision.want import Want

DIGITS = 5
"""More has no release's number."""


def check(want: Want, facts: Facts) -> list[Finding]:
    """One row. A toolkit that the stack does not want is shown, and held to nothing."""
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
        return [unknown("cuda", "host", expected="all three", reason=reason or silent, noun="CUDA")]
    built = sorted((name for name, nvcc in toolkits.installed.items() if nvcc), key=_major)
    torches = _torches(environments)
    brought = ", ".join(f"{cuda or 'without CUDA'} ({name})" for name, cuda in torches.items())
    ours = [*want.stack.toolkit.keys() & {*built}, *filter(None, torches.values())]
    needed = max(map(_major, ours), default=0)
    row = judge(
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
    return [row]


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
