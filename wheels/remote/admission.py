"""Which compilers of a build may run: pure, asked about twice a second and at every event.

The server keeps the clock and the processes; this module keeps none of both, so that the same
function drives the real build and the simulated one. Every call gets the whole state and answers
with what to do now:

    decision = decide(waiting, running, room, available)

- A unit starts when its curve fits beside what the running ones will still need, at every moment to
  come, and a processor is idle, or had better be shared (`processors`).
- What is reserved for a running one follows what was seen of it: more than its curve where it is
  above it, its peak for as long as that has not fallen, the rest alone once it has.
- Live memory overrules curves, and so does the kernel's word that it is short. Where the reserved
  ones would outgrow the room, the youngest are paused (SIGSTOP): they keep what they have and grow
  no further; they resume when they fit again. The oldest is never paused. Where even that one can't
  go on, the youngest are killed, to be handed in again as `retry` says; unless all fits as long as
  it goes as expected.
- A unit that is larger than the room runs alone, and that is said.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import add

from wheels.remote.curve import Curve, sampled

GIB = 2**30
STEPS = 200
"""Moments of the longest curve that are looked at."""
CROWD = 2.0
"""How far processors may be shared; simulated from 1.25 to 3, this ends first."""
SHORT = 0.5
"""Memory is short where it would take longer than this share of the time that processors take, were
either used without a gap. Compilers take a third of their peak on average, and peaks are in each
other's way long before that of memory over time is spent."""
REACTION = 2.0
"""Seconds until a decision has an effect on memory: two rounds of the server, and the signal."""
FALLEN = 0.6
"""Below this share of its own peak a unit's memory has fallen (a cicc falls to a third)."""
SAME_PEAK = 0.7
"""A peak that was seen is the predicted one from this share of it on."""
HEAVIER = 1.25
"""How much heavier than expected a unit is taken to be before it is taken to be faster."""
NEAR = 0.8
"""From this share of its peak on, a unit that is lighter than expected is taken to stay so."""
RETRY = 1.1
"""How much more than what was seen of it a killed unit is expected to need."""


@dataclass(frozen=True)
class Unit:
    """A compilation as it is predicted."""

    name: str
    curve: Curve
    """Memory over an undisturbed run, in seconds of the host it was measured on."""
    cores: float = 1.0
    """Processors that it keeps busy (nvcc --threads: up to one per arch)."""


@dataclass(frozen=True)
class Room:
    """What the build may use."""

    budget: int
    """Bytes."""
    cores: int
    pace: float = 1.0
    """Seconds that one of the curves' seconds takes on this host, as `pace` tells."""


@dataclass(frozen=True)
class Running:
    """A unit that was started and has not ended, with what was seen of it."""

    unit: Unit
    elapsed: float
    """Seconds of an undisturbed run that it has done: time since its start less pauses; where the
    server knows its CPU time, that through `unit.cores`, which crowded processors do not stretch.
    """
    now: int
    """Bytes of all its processes."""
    peak: int
    """The most bytes that were seen of it."""
    paused: bool = False


@dataclass(frozen=True)
class Decision:
    """Names of units, each in at most one list, in the order in which to do it."""

    start: tuple[str, ...] = ()
    pause: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    say: tuple[str, ...] = ()
    """Sentences for the user and the build's log; the same state gives the same ones again."""


def decide(
    waiting: Sequence[Unit],
    running: Sequence[Running],
    room: Room,
    available: int | None,
    *,
    pressed: bool = False,
) -> Decision:
    """What to do now with units whose names all differ.

    `available` are bytes that the host (MemAvailable, cgroups) could still give to the build; None
    where the user declared the budget, which then alone counts. While the host is `pressed`, it
    gives them only by taking them from somebody: but for the oldest, nothing grows then.
    """
    running = [replace(one, elapsed=one.elapsed / room.pace) for one in running]
    used = sum(one.now for one in running)
    limit = room.budget if available is None else min(room.budget, used + max(available, 0))
    units = [*waiting, *(one.unit for one in running)]
    step = max((unit.curve.duration for unit in units), default=1.0) / STEPS or 1.0
    ahead = _Ahead(min(limit, used) if pressed else limit, step, used)

    goes: list[Running] = []
    stays: list[Running] = []
    for one in sorted(running, key=_age):
        (goes if ahead.goes_on(one, first=not goes) else stays).append(one)
    kill = _killed(goes, stays, ahead.soon() - limit)
    if kill and not goes[0].paused and _expected(running) <= limit:
        return Decision()
    start = [] if stays or kill else _started(waiting, goes, room, ahead)
    return Decision(
        start=tuple(unit.name for unit in start),
        pause=tuple(one.unit.name for one in stays if not one.paused and one not in kill),
        resume=tuple(one.unit.name for one in goes if one.paused and one not in kill),
        kill=tuple(one.unit.name for one in kill),
        say=tuple(_said(start, kill, limit)),
    )


def pace(ended: Iterable[tuple[Unit, float]]) -> float:
    """A host's pace, from units that ended and the seconds they took (`Running.elapsed`)."""
    pairs = list(ended)
    expected = sum(unit.curve.duration for unit, _ in pairs)
    return sum(took for _, took in pairs) / expected if pairs else 1.0


def retry(one: Running) -> Unit:
    """A killed unit as it is to be handed in again: heavier than it was expected and seen."""
    seen = one.peak / max(one.unit.curve.peak, 1)
    return replace(one.unit, curve=one.unit.curve.scaled(memory=max(seen, 1.0) * RETRY))


def reserved(one: Running, step: float) -> list[float]:
    """Bytes that a running unit will need, `step` by `step` seconds from now."""
    curve, place = one.unit.curve, _place(one)
    ratio = _ratio(one, place)
    samples = sampled(curve, step)
    rest = samples[min(int(place / step), len(samples) - 1) :]
    needs = [ratio * size for size in map(max, rest, (*rest[1:], 0))]
    needs[0] = ratio * curve.highest(place, place + step / 2)  # what it had before does not count
    late = max(one.elapsed - curve.duration, 0.0)
    hold = min(_soon(step) + int(late / step), 2 * STEPS)
    needs += [0] * (hold - len(needs))
    needs[:hold] = [max(size, one.now) for size in needs[:hold]]
    return needs


def _expected(running: Sequence[Running]) -> float:
    """Bytes at most within the time that a decision takes, if all goes on as its curves say.

    Unlike what is reserved, memory falls here when its curve does: that it might fall late is
    reason enough to pause compilers, which costs little, but not to end one.
    """
    moments = (0.0, REACTION / 4, REACTION / 2, REACTION)
    return max(sum(_after(one, seconds) for one in running) for seconds in moments)


def _after(one: Running, seconds: float) -> float:
    later = _place(one) + seconds
    if one.paused or not seconds or later > one.unit.curve.duration:
        return one.now
    return _ratio(one, later - seconds) * one.unit.curve.at(later)


def _ratio(one: Running, place: float) -> float:
    """How much heavier than its curve a unit is, as far as it has come."""
    before = max(one.unit.curve.highest(0.0, place), 1)
    ratio = one.peak / before
    if before < NEAR * one.unit.curve.peak:
        return max(ratio, 1.0)  # its peak is still to come, and may yet be as expected
    return ratio


def _soon(step: float) -> int:
    """How many moments lie within the time that a decision takes."""
    return 1 + math.ceil(REACTION / step)


def _place(one: Running) -> float:
    """How far along its curve a unit is, in seconds: as its time says, corrected by its memory.

    More memory than a heavier unit would have by now is a faster one's. While it has not fallen,
    what its curve falls from is still to come, however late it is. Once it has, that is over, if
    the peak that was seen can have been the expected one.
    """
    curve, place = one.unit.curve, min(one.elapsed, one.unit.curve.duration)
    if one.peak > HEAVIER * curve.highest(0.0, place):
        place = curve.reaches(min(round(one.peak / HEAVIER), curve.peak))
    highest = curve.highest(0.0, place)
    fallen = one.now < FALLEN * one.peak
    expected = curve.at(place) < FALLEN * highest
    if expected and not fallen:
        return curve.reaches(min(one.now, highest))
    if fallen and not expected:
        below = (time for time, size in curve.points if time > place and size < FALLEN * highest)
        after = min(below, default=curve.duration)
        if one.peak >= SAME_PEAK * curve.highest(place, after):
            return after
    return place


class _Ahead:
    """Memory that is spoken for, at the moments to come."""

    def __init__(self, limit: int, step: float, used: int) -> None:
        self.limit, self.step = limit, step
        self.taken: list[float] = [0] * (2 * STEPS + 4)
        self.still = used
        """Bytes, at all moments, of those that may not go on, or not yet."""

    def goes_on(self, one: Running, *, first: bool) -> bool:
        """Reserve what a unit needs instead of what it has: for the first, and where that fits."""
        needs, still = reserved(one, self.step), self.still - one.now
        taken = list(map(add, self.taken, needs))
        if not first and max(taken) + still > self.limit:
            over = (size + still > self.limit for size in taken)
            if any(too_much and need > one.now for too_much, need in zip(over, needs, strict=True)):
                return False
        self.taken[: len(taken)] = taken
        self.still = still
        return True

    def soon(self) -> float:
        """Bytes at most within the time that a decision takes."""
        return max(self.taken[: _soon(self.step)]) + self.still

    def fits(self, unit: Unit, wait: int = 0) -> bool:
        """Whether a unit may start after so many steps."""
        most: float = max(map(add, self.taken[wait:], sampled(unit.curve, self.step)))
        return most + self.still <= self.limit

    def reserve(self, unit: Unit, wait: int = 0) -> None:
        """Keep what a unit needs that starts after so many steps."""
        needs = sampled(unit.curve, self.step)
        self.taken[wait : wait + len(needs)] = map(add, self.taken[wait:], needs)

    def reserve_first(self, unit: Unit) -> None:
        """Keep what a unit needs that starts as soon as it can, if it ever can."""
        needs = sampled(unit.curve, self.step)
        top = needs.index(max(needs))
        for wait in range(1, STEPS + 3):
            # Where its peak does not fit nothing else need be looked at: most often that is so.
            peak = self.taken[wait + top] + needs[top] + self.still
            if peak <= self.limit and self.fits(unit, wait):
                self.reserve(unit, wait)
                return


def _age(one: Running) -> tuple[float, str]:
    return (-one.elapsed, one.unit.name)


def processors(waiting: Collection[Unit], going: Collection[Running], room: Room) -> float:
    """How many processors units may keep busy before none is started any more.

    All there are; more where something is won, as what shares a processor takes longer. At the end,
    once all that waits could start, units then end together instead of one alone, unless a running
    one ends last anyway. Before, memory that is short then lies idle less: that goes as far as the
    longest unit still ends before all the work is done.
    """
    left = [(unit.curve.duration, unit.cores) for unit in waiting]
    begun = [(one.unit.curve.duration - one.elapsed, one.unit.cores) for one in going]
    longest = max((rest for rest, _ in (*left, *begun)), default=0.0)
    share = _work(left + begun) / (longest * room.cores) if longest > 0 else 1.0
    if sum(cores for _, cores in left) <= room.cores:
        outlived = all(rest < longest for rest, _ in left)
        return room.cores * (1.0 if outlived and share <= 1 else CROWD)
    memory = sum(unit.curve.area for unit in waiting) / room.budget
    if memory <= SHORT * _work(left) / room.cores:
        return room.cores
    return room.cores * min(CROWD, max(1.0, share))


def _work(parts: Iterable[tuple[float, float]]) -> float:
    """Seconds of one processor, of seconds on so many each."""
    return sum(seconds * cores for seconds, cores in parts)


def _started(
    waiting: Sequence[Unit], goes: Sequence[Running], room: Room, ahead: _Ahead
) -> list[Unit]:
    """Units that fit now, longest first; with nothing running, one in any case."""
    started: list[Unit] = []
    busy = sum(one.unit.cores for one in goes)
    most = processors(waiting, goes, room)
    refused: set[Curve] = set()
    for unit in sorted(waiting, key=_order):
        if busy >= most:
            break
        if unit.curve in refused:
            continue
        if ahead.fits(unit):
            ahead.reserve(unit)
            started.append(unit)
            busy += unit.cores
        else:
            if not refused:
                ahead.reserve_first(unit)
            refused.add(unit.curve)
    if not started and not goes and waiting:
        started.append(min(waiting, key=lambda unit: (unit.curve.peak, unit.name)))
    return started


def _order(unit: Unit) -> tuple[float, int, str]:
    return (-unit.curve.duration, -unit.curve.peak, unit.name)


def _killed(goes: Sequence[Running], stays: Sequence[Running], over: float) -> list[Running]:
    """Youngest first, as many as must go for the oldest to have so many bytes right now."""
    killed: list[Running] = []
    for one in reversed([*goes[1:], *stays]):
        if over <= 0:
            break
        killed.append(one)
        over -= one.now
    return killed


def _said(start: Iterable[Unit], kill: Iterable[Running], limit: int) -> Iterator[str]:
    room = f"the {limit / GIB:.1f} GiB that there are"
    for unit in start:
        if unit.curve.peak > limit:
            needs = f"{unit.name} is expected to need {unit.curve.peak / GIB:.1f} GiB"
            yield f"{needs}, more than {room}: it runs alone"
    for one in kill:
        yield f"{one.unit.name} is ended to keep within {room}; it runs again later"
