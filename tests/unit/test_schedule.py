"""Builds in simulated time, by the gate's own decisions; memory and processors are simulated."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.build_schedule import EVERY_UNIT, FOUR_ARCHS, ONE_ARCH
from tests.steady import steady
from tests.unit.curves import GIB, HUMP, rooms, units
from wheels.remote.admission import Decision, Room, Unit, decide
from wheels.remote.curve import Curve
from wheels.schedule import Job, at_most, bound, exact, simulate, static_jobs

FLAT = Curve(((0.0, GIB), (40.0, GIB)))


def flat(count, *, cores=1.0):
    return [Unit(f"u{index}", FLAT, cores) for index in range(count)]


class TestSimulatedHost:
    """Held to what can be worked out on paper."""

    def test_units_one_after_the_other(self):
        found = simulate(exact(flat(3)), Room(8 * GIB, cores=8), at_most(1))
        assert found.makespan == pytest.approx(120.0)
        assert found.peak == GIB
        assert [row.end for row in found.rows] == pytest.approx([40.0, 80.0, 120.0])

    def test_units_side_by_side(self):
        found = simulate(exact(flat(3)), Room(8 * GIB, cores=8), at_most(3))
        assert (found.makespan, found.peak) == (pytest.approx(40.0), 3 * GIB)

    def test_processors_are_shared_in_proportion(self):
        found = simulate(exact(flat(4)), Room(8 * GIB, cores=2), at_most(4))
        assert found.makespan == pytest.approx(80.0)
        found = simulate(exact(flat(2, cores=3.0)), Room(8 * GIB, cores=3), at_most(2))
        assert found.makespan == pytest.approx(80.0)

    def test_the_peak_is_seen_between_questions_too(self):
        found = simulate(exact([Unit("a", HUMP)]), Room(8 * GIB, cores=1), at_most(1))
        assert found.peak == HUMP.peak

    def test_a_rule_that_counts_jobs_does_not_mind_memory(self):
        found = simulate(exact(flat(4)), Room(2 * GIB, cores=8), at_most(4))
        assert found.peak == 4 * GIB

    def test_a_killed_unit_starts_over(self):
        killed = []

        def policy(waiting, running, room, available):
            if not killed and any(one.elapsed > 20 for one in running):
                killed.append(running[0].unit.name)
                return Decision(kill=(killed[0],), start=())
            return decide(waiting, running, room, available)

        found = simulate(exact(flat(2)), Room(GIB, cores=1), policy)  # one at a time
        assert [row.name for row in found.rows if row.killed] == killed
        assert found.makespan == pytest.approx(80 + 21)  # asked every second, killed after 20

    def test_a_paused_unit_keeps_its_memory_and_does_not_go_on(self):
        def policy(waiting, running, room, _available):
            state = {one.unit.name: one for one in running}
            if not running:
                return Decision(start=("u0", "u1"))
            if "u0" in state and not state["u1"].paused:
                return Decision(pause=("u1",))
            return Decision(resume=("u1",) if "u0" not in state else ())

        found = simulate(exact(flat(2)), Room(GIB, cores=8), policy)
        second = next(row for row in found.rows if row.name == "u1")
        assert second.end == pytest.approx(40.0 + second.paused)
        assert second.paused > 30
        assert found.peak == 2 * GIB


def test_the_bound_is_the_largest_of_three():
    room = Room(4 * GIB, cores=2)
    assert bound(flat(10), room) == pytest.approx(10 * 40 / 2)
    assert bound(flat(1), room) == pytest.approx(40)
    assert bound(flat(10), Room(GIB, cores=32)) == pytest.approx(10 * 40)
    assert bound(flat(1, cores=4.0), room) == pytest.approx(80)


def test_static_jobs_fit_whichever_units_they_are():
    mixed = [*flat(4), Unit("a", HUMP), Unit("b", HUMP)]
    assert static_jobs(mixed, Room(12 * GIB, cores=8)) == 2
    assert static_jobs(mixed, Room(13 * GIB, cores=8)) == 3
    assert static_jobs(mixed, Room(99 * GIB, cores=5)) == 5
    assert static_jobs(mixed, Room(GIB, cores=5)) == 1


def finished(found, jobs):
    return sorted(row.name for row in found.rows if not row.killed) == sorted(
        job.expected.name for job in jobs
    )


@steady(25)
@given(units(), rooms)
def test_as_expected_never_over_the_budget(build, room):
    """With curves like combs a paused spike can cost another unit its work, seldom: it runs again.

    Of the units that were measured none is killed, see below and `benchmarks.build_schedule`.
    """
    build = [unit for unit in build if unit.curve.peak <= room.budget] or flat(1)
    found = simulate(exact(build), room)
    assert finished(found, exact(build))
    assert found.peak <= room.budget
    assert found.makespan >= bound(build, room) * 0.999


@steady(15)
@given(units(), rooms, st.integers(0, 10**6))
def test_whatever_goes_wrong_every_unit_ends_once(build, room, seed):
    """Memory and time off by up to a factor of two, and compilers killed by somebody else."""
    chance = random.Random(seed)  # noqa: S311 (not a secret)
    jobs = [
        Job(unit, unit.curve.scaled(time=chance.uniform(0.5, 2), memory=chance.uniform(0.5, 2)))
        for unit in build
    ]

    def policy(waiting, running, room, available):
        decision = decide(waiting, running, room, available)
        others = [one.unit.name for one in running if one.unit.name not in decision.kill]
        if others and not decision.start and chance.random() < 0.01:
            decision = replace(decision, pause=(), resume=(), kill=(*decision.kill, others[0]))
        return decision

    assert finished(simulate(jobs, room, policy, tick=5.0), jobs)


@steady(12)
@given(units(most=4), rooms)
def test_the_longest_is_not_passed_over_by_what_fits_before_it(build, room):
    """It needs the whole room, comes late, and starts when what runs by then has ended."""
    build = [unit for unit in build if unit.curve.peak <= room.budget] or flat(1)
    longest = max(unit.curve.duration for unit in build)
    many = [replace(unit, name=f"{unit.name}-{turn}") for unit in build for turn in range(4)]
    late = Unit("late", Curve(((0.0, room.budget), (longest + 1.0, room.budget))))
    started = set()

    def policy(waiting, running, room, available):
        seen = waiting if started else [unit for unit in waiting if unit.name != "late"]
        decision = decide(seen, running, room, available)
        started.update(decision.start)
        return decision

    found = simulate(exact([*many, late]), room, policy, tick=2.0)
    assert finished(found, exact([*many, late]))
    before = max(row.end for row in found.rows if row.start == 0.0)
    step = (longest + 1.0) / 100
    assert next(row.start for row in found.rows if row.name == "late") <= before + 4.0 + step


@pytest.mark.parametrize(
    ("series", "gib", "cores"),
    [(EVERY_UNIT, 64, 32), (ONE_ARCH, 24, 32), (ONE_ARCH, 420, 128), (FOUR_ARCHS, 512, 128)],
    ids=str,
)
def test_flash_attn_ends_near_the_bound_within_the_budget(series, gib, cores):
    """Also with every peak off by up to 20 %: simulated, from the curves that were measured."""
    chance = random.Random(20)  # noqa: S311 (not a secret)
    room = Room(gib * GIB, cores)
    expected = series.units()
    off = [Job(unit, unit.curve.scaled(memory=chance.uniform(0.8, 1.2))) for unit in expected]
    for jobs, worst in ((exact(expected), 1.5), (off, 1.6)):
        found = simulate(jobs, room)
        true = [replace(job.expected, curve=job.true) for job in jobs]
        assert found.peak <= room.budget
        assert found.makespan <= worst * bound(true, room)
        assert finished(found, jobs)
        assert not any(row.killed for row in found.rows)


@pytest.mark.parametrize("pace", [0.6, 1.5])
def test_a_host_of_another_pace_than_the_profile_s_builds_as_well(pace):
    jobs = [Job(unit, unit.curve.scaled(time=pace)) for unit in EVERY_UNIT.units()]
    room = Room(64 * GIB, 32)
    found = simulate(jobs, room)
    assert found.peak <= room.budget
    assert found.makespan <= 1.4 * bound(
        [replace(job.expected, curve=job.true) for job in jobs], room
    )
