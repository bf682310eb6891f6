"""A build in simulated time: how long it takes, and how much memory at most. Pure.

The gate's own `decide` says what runs, as on a host; only processors and memory are simulated.
Where more is run than there are processors, all go on in proportion. A paused compiler keeps its
memory; a killed one loses its work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from wheels.remote import admission
from wheels.remote.admission import Decision, Room, Running, Unit
from wheels.remote.curve import Curve

TICK = 1.0
"""Seconds between two questions while something waits or memory could run short."""

Policy = Callable[[Sequence[Unit], Sequence[Running], Room, int | None], Decision]


@dataclass(frozen=True)
class Job:
    """A unit as the policy knows it, and as it then turns out."""

    expected: Unit
    true: Curve


@dataclass(frozen=True)
class Row:
    """One run of one unit."""

    name: str
    start: float
    """Seconds since the build's start."""
    end: float
    paused: float
    """Seconds of it that it stood still."""
    killed: bool


@dataclass(frozen=True)
class Schedule:
    """How a build went."""

    makespan: float
    """Seconds."""
    peak: int
    """Bytes at most, of all compilers together."""
    rows: tuple[Row, ...]
    """In the order of their ends."""


def simulate(
    jobs: Iterable[Job], room: Room, policy: Policy = admission.decide, tick: float = TICK
) -> Schedule:
    """Build all jobs, which wait in the given order from the start."""
    build = _Build(list(jobs), room, policy)
    while build.step(tick):
        pass
    return Schedule(build.clock, build.peak, tuple(build.rows))


def exact(units: Iterable[Unit]) -> list[Job]:
    """Jobs that turn out as expected."""
    return [Job(unit, unit.curve) for unit in units]


def bound(units: Sequence[Unit], room: Room) -> float:
    """Seconds that no schedule can beat; which units fit together may forbid even these."""
    work = sum(unit.curve.duration * unit.cores for unit in units) / room.cores
    alone = max(unit.curve.duration * max(1.0, unit.cores / room.cores) for unit in units)
    return max(work, alone, sum(unit.curve.area for unit in units) / room.budget)


def static_jobs(units: Iterable[Unit], room: Room) -> int:
    """The most jobs, at least one, whose peaks fit together whichever of the units they are."""
    jobs, taken = 0, 0
    for peak in sorted((unit.curve.peak for unit in units), reverse=True):
        taken += peak
        if taken > room.budget:
            break
        jobs += 1
    return max(1, min(jobs, room.cores))


def at_most(count: int) -> Policy:
    """The rule of `ninja -j`: so many at once, in their order, whatever memory they take."""

    def policy(
        waiting: Sequence[Unit], running: Sequence[Running], _room: Room, _available: int | None
    ) -> Decision:
        free = max(count - len(running), 0)
        return Decision(start=tuple(unit.name for unit in waiting[:free]))

    return policy


@dataclass
class _Process:
    unit: Unit
    true: Curve
    started: float
    done: float = 0.0
    """Seconds of an undisturbed run."""
    paused: bool = False
    stood: float = 0.0
    peak: int = 0

    def seen(self) -> Running:
        now = self.true.at(self.done)
        return Running(self.unit, self.done, now, max(self.peak, now), self.paused)


@dataclass
class _Build:
    jobs: list[Job]
    room: Room
    policy: Policy
    clock: float = 0.0
    peak: int = 0
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.true = {job.expected.name: job.true for job in self.jobs}
        self.waiting = {job.expected.name: job.expected for job in self.jobs}
        self.running: dict[str, _Process] = {}
        self.ended: list[tuple[Unit, float]] = []

    def step(self, tick: float) -> bool:
        """Ask, obey, and go on to the next moment at which something may change."""
        if not (self.waiting or self.running):
            return False
        seen = [process.seen() for process in self.running.values()]
        room = replace(self.room, pace=admission.pace(self.ended))
        decision = self.policy(list(self.waiting.values()), seen, room, None)
        self._obey(decision)
        active = [process for process in self.running.values() if not process.paused]
        if not active:
            if not decision.kill:
                raise RuntimeError("nothing runs, and nothing was started")
            return True
        rate = self._rate()
        ahead = min((process.true.duration - process.done) / rate for process in active)
        if self._may_change():
            ahead = min(ahead, tick)
        self._advance(active, ahead, rate)
        return True

    def _may_change(self) -> bool:
        """Whether the policy could say something new before the next unit ends."""
        going = [one.seen() for one in self.running.values() if not one.paused]
        busy = sum(one.unit.cores for one in going)
        if self.waiting and busy < admission.processors(self.waiting.values(), going, self.room):
            return True
        most = sum(one.true.highest(one.done, one.true.duration) for one in self.running.values())
        return most > self.room.budget or any(one.paused for one in self.running.values())

    def _obey(self, decision: Decision) -> None:
        for name in decision.kill:
            process = self.running.pop(name)
            self._ended(process, killed=True)
            self.waiting[name] = admission.retry(process.seen())
        for name in decision.pause:
            self.running[name].paused = True
        for name in decision.resume:
            self.running[name].paused = False
        for name in decision.start:
            self.running[name] = _Process(self.waiting.pop(name), self.true[name], self.clock)

    def _rate(self) -> float:
        busy = sum(one.unit.cores for one in self.running.values() if not one.paused)
        return min(1.0, self.room.cores / busy)

    def _advance(self, active: list[_Process], ahead: float, rate: float) -> None:
        still = sum(one.true.at(one.done) for one in self.running.values() if one.paused)
        self.peak = max(self.peak, still + _most(active, ahead * rate))
        self.clock += ahead
        for process in self.running.values():
            process.stood += ahead * process.paused
        for process in active:
            before, process.done = process.done, process.done + ahead * rate
            process.peak = max(process.peak, process.true.highest(before, process.done))
            if process.done >= process.true.duration - 1e-9:
                del self.running[process.unit.name]
                self._ended(process, killed=False)
                self.ended.append((process.unit, process.done))

    def _ended(self, process: _Process, *, killed: bool) -> None:
        row = Row(process.unit.name, process.started, self.clock, process.stood, killed)
        self.rows.append(row)


def _most(active: Iterable[_Process], ahead: float) -> int:
    """Bytes at most while all go on for so many seconds: at a bend of one of their curves."""
    bends = {0.0, ahead}
    for one in active:
        bends.update(
            time - one.done for time, _ in one.true.points if one.done < time < one.done + ahead
        )
    return max(sum(one.true.at(one.done + bend) for one in active) for bend in bends)
