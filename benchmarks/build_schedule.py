"""How near a simulated build of flash-attn 2.8.3 comes to its bound, and whether within memory.

    python -m benchmarks.build_schedule [--seeds N] [--json FILE]

Replayed are the curves of `wheels/recipes/profiles/flash-attn.json`, 73 units, those of one
compiler at a time, by the gate's own decisions; processors and memory are simulated. nvcc 13.0 was
measured with every unit, in a build; nvcc 13.1 with 20 of them, each alone, which stand for the
others. The bound is the largest of processor time ÷ processors, the longest unit, and memory over
time ÷ budget: no schedule beats it, and where few units fit side by side none reaches it.

Beside the gate stand counts of jobs, as `ninja -j` takes them, in ninja's order:

- 2.8.3: min(processors ÷ 2, available GiB ÷ 9), of flash-attn 2.8.3's setup.py
- main: min(processors ÷ 2, available GiB ÷ 5 ÷ NVCC_THREADS), of its main branch in 2026
- 20 jobs, whatever the host
- the most jobs that stay within the budget, which nobody knows before

A build that goes over its budget dies on a real host; here its time is told nevertheless.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from wheels import profile
from wheels.remote.admission import Room, Unit
from wheels.schedule import Job, at_most, bound, exact, simulate

GIB = 2**30
BUDGETS = (8, 16, 24, 32, 64, 128, 256, 420, 512)
"""GiB."""
CORES = (2, 8, 16, 32, 64, 128)
OFF = 0.2
"""By how much every unit's true memory may differ from what is expected, either way."""
WIDTH = 130
"""Characters that a table needs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """What is built: with one compiler, whose curves of one arch are taken, for so many archs."""

    compiler: str
    arch: str
    archs: int = 1
    """NVCC_THREADS are as many; flash-attn's own default is four of both."""

    def __str__(self) -> str:
        many = "1 arch" if self.archs == 1 else f"{self.archs} archs, NVCC_THREADS {self.archs}"
        return f"{self.compiler}, {many}"

    def units(self) -> list[Unit]:
        """What is expected of all units, in the order in which ninja starts them: by name."""
        known = profile.load("flash-attn")
        if known is None:
            raise FileNotFoundError("wheels/recipes/profiles/flash-attn.json")
        rows = tuple(row for row in known.measured if self.takes(row))
        found = profile.predict(
            known.model_copy(update={"measured": rows}),
            sorted({row.unit for row in known.measured}),
            archs=self.archs,
            threads=self.archs,
            compiler=self.compiler,
        )
        return [one.unit for one in found]

    def takes(self, row: profile.Measured) -> bool:
        """Whether a row was measured so; what is not compiled for GPUs counts always."""
        return row.arch is None or (row.compiler, row.arch) == (self.compiler, self.arch)


EVERY_UNIT = Series(compiler="nvcc 13.0", arch="90")
ONE_ARCH = Series(compiler="nvcc 13.1", arch="120")
FOUR_ARCHS = Series(compiler="nvcc 13.1", arch="120", archs=4)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One simulated build."""

    rule: str
    jobs: int | None
    """At once; None where that is not a number given beforehand."""
    time: float
    """Its makespan over the bound."""
    memory: float
    """Its peak over the budget."""
    paused: float = 0.0
    """Seconds, of all units together."""
    killed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One host, and how every rule fares on it."""

    series: Series
    gib: int
    cores: int
    bound: float
    """Seconds."""
    outcomes: tuple[Outcome, ...]

    def of(self, rule: str) -> Outcome:
        """The worst of what one rule came to."""
        return max((one for one in self.outcomes if one.rule == rule), key=lambda one: one.time)


def off(units: Iterable[Unit], seed: int) -> list[Job]:
    """Jobs that turn out lighter or heavier than expected."""
    chance = random.Random(seed)  # noqa: S311 (not a secret)
    return [Job(unit, unit.curve.scaled(memory=chance.uniform(1 - OFF, 1 + OFF))) for unit in units]


def gate(rule: str, jobs: Sequence[Job], room: Room) -> Outcome:
    """What the gate makes of a build."""
    found = simulate(jobs, room)
    least = bound([replace(job.expected, curve=job.true) for job in jobs], room)
    return Outcome(
        rule=rule,
        jobs=None,
        time=found.makespan / least,
        memory=found.peak / room.budget,
        paused=sum(row.paused for row in found.rows),
        killed=sum(row.killed for row in found.rows),
    )


def counted(rule: str, jobs: int, units: Sequence[Unit], room: Room) -> Outcome:
    """What so many jobs at once make of it."""
    found = simulate(exact(units), room, at_most(jobs), tick=math.inf)
    return Outcome(
        rule=rule,
        jobs=jobs,
        time=found.makespan / bound(units, room),
        memory=found.peak / room.budget,
    )


def best(units: Sequence[Unit], room: Room) -> Outcome:
    """The most jobs that stay within the budget, found by halving."""
    fits, too_many = 1, min(len(units), room.cores) + 1
    while too_many - fits > 1:
        jobs = (fits + too_many) // 2
        if counted("best", jobs, units, room).memory <= 1:
            fits = jobs
        else:
            too_many = jobs
    return counted("best", fits, units, room)


def cells(seeds: int) -> Iterator[Cell]:
    """Every host on which all units fit one by one, however heavy they turn out."""
    for series in (EVERY_UNIT, ONE_ARCH, FOUR_ARCHS):
        units = series.units()
        for gib in BUDGETS:
            if max(unit.curve.peak for unit in units) * (1 + OFF) > gib * GIB:
                continue
            for cores in CORES:
                room = Room(gib * GIB, cores)
                released, main = cores // 2, max(1, gib // (5 * series.archs))
                yield Cell(
                    series=series,
                    gib=gib,
                    cores=cores,
                    bound=bound(units, room),
                    outcomes=(
                        gate("gate", exact(units), room),
                        *(gate("off", off(units, seed), room) for seed in range(seeds)),
                        counted("2.8.3", max(1, min(released, gib // 9)), units, room),
                        counted("main", max(1, min(released, main)), units, room),
                        counted("20", 20, units, room),
                        best(units, room),
                    ),
                )


RULES = {
    "gate": "gate",
    "off": f"gate, ±{OFF:.0%}",
    "2.8.3": "2.8.3",
    "main": "main",
    "20": "20 jobs",
    "best": "best count",
}


def table(series: Series, there: Sequence[Cell]) -> Table:
    """One line a host: time over the bound, and peak over the budget."""
    title = f"{series}: time ÷ bound, peak ÷ budget (over it: !), jobs"
    found = Table(title=title, title_justify="left", show_edge=False)
    for column in ("GiB", "cores", "bound s", *RULES.values()):
        found.add_column(column, justify="right")
    for cell in there:
        outcomes = (cell.of(rule) for rule in RULES)
        found.add_row(str(cell.gib), str(cell.cores), f"{cell.bound:.0f}", *map(_told, outcomes))
    return found


def _told(one: Outcome) -> str:
    jobs = f" {one.jobs:>2}" if one.jobs else ""
    return f"{one.time:.2f} {one.memory:4.2f}{'!' if one.memory > 1 else ' '}{jobs}"


def summary(what: str, all_of: Sequence[Cell]) -> Table:
    """What each rule comes to over many hosts."""
    title = f"{what}: {len(all_of)} hosts"
    found = Table(title=title, title_justify="left", show_edge=False)
    for column in ("rule", "median", "worst", "over its budget", "paused s", "killed"):
        found.add_column(column, justify="left" if column == "rule" else "right")
    for rule, label in RULES.items():
        there = [one for cell in all_of for one in cell.outcomes if one.rule == rule]
        times = [one.time for one in there]
        over = sum(one.memory > 1 for one in there)
        found.add_row(
            label,
            f"{statistics.median(times):.3f}",
            f"{max(times):.2f}",
            f"{over} of {len(there)}",
            f"{statistics.mean(one.paused for one in there):.0f}",
            str(sum(one.killed for one in there)),
        )
    return found


def main() -> None:
    """Simulate all builds and print what came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3, help="builds with memory off, per host")
    parser.add_argument("--json", type=Path, help="write every outcome to a file")
    options = parser.parse_args()
    console = Console(width=WIDTH)
    found = []
    for cell in cells(options.seeds):
        found.append(cell)
        console.print(f"{cell.series}, {cell.gib} GiB, {cell.cores} cores", end="\r")
    for series in dict.fromkeys(cell.series for cell in found):
        there = [cell for cell in found if cell.series == series]
        left_out = sorted(set(BUDGETS) - {cell.gib for cell in there})
        console.print(table(series, there))
        if left_out:
            console.print(f"left out, too small for the largest unit alone: {left_out} GiB")
        console.print(summary(str(series), there))
    console.print(summary("all", found))
    if options.json:
        options.json.write_text(json.dumps([asdict(cell) for cell in found], indent=1))


if __name__ == "__main__":
    main()
