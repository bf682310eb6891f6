"""A build in words: what, where, for whom, in how much memory and time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from wheels.plan import GIB, Build


def lines(build: Build) -> Iterator[str]:
    """For people."""
    recipe = build.recipe
    against = ", ".join(f"{name} {version}" for name, version in build.versions.items())
    yield (
        f"{recipe.wheel} {build.version}"
        + (f", built against {against}" if against else "")
        + f", with CUDA {recipe.toolkit.release}"
    )
    for arch, whose in build.archs.items():
        yield f"for GPUs of compute capability {arch} ({whose})"
    kinds = Counter(one.kind for one in build.predictions)
    how = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    heaviest = max((one.unit.curve.peak for one in build.predictions), default=0)
    yield (
        f"{len(build.predictions)} units ({how}), the heaviest {heaviest / GIB:.1f} GiB; "
        f"all at once {sum(one.unit.curve.peak for one in build.predictions) / GIB:.0f} GiB"
    )
    if heaviest > build.room.budget:
        yield "the heaviest is larger than the whole budget: it would run alone, and go over it"
    yield f"budget {_size(build.room.budget)} ({build.why}), {build.room.cores} processors"
    yield (
        f"about {minutes(build.schedule.makespan)}, {build.schedule.peak / GIB:.1f} GiB at most; "
        + (
            "the gate lets compilers in as memory allows"
            if build.gate
            else f"without the gate, {build.jobs} at a time"
        )
    )


def data(build: Build) -> dict[str, Any]:
    """As JSON."""
    return {
        "recipe": build.recipe.name,
        "wheel": build.recipe.wheel,
        "version": build.version,
        "against": dict(build.versions),
        "archs": dict(build.archs),
        "units": [
            {"unit": p.unit.name, "peak": p.unit.curve.peak, "basis": p.basis}
            for p in build.predictions
        ],
        "budget": build.room.budget,
        "cores": build.room.cores,
        "jobs": build.jobs,
        "seconds": round(build.schedule.makespan, 1),
        "peak": build.schedule.peak,
        "there": build.there.file if build.there else None,
        "plan": build.plan.to_data(),
    }


def _size(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / 2**20:.0f} MiB"


def minutes(seconds: float) -> str:
    """A time that is only foreseen, as people say it."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
