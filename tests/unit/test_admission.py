"""Who may run: decisions on states that a build can be in."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.steady import steady
from tests.unit.curves import GIB, HUMP, MIB, curves, rooms, units
from wheels.remote.admission import (
    CROWD,
    Decision,
    Room,
    Running,
    Unit,
    decide,
    pace,
    reserved,
    retry,
)
from wheels.remote.curve import Curve

SMALL = Curve(((0.0, GIB), (40.0, GIB)))
SIX = Room(8 * GIB, cores=8)


def hump(name="hump", **changes):
    return replace(Unit(name, HUMP), **changes)


def at(unit, elapsed, *, memory=1.0, **changes):
    """A unit that is as far as its curve says, `memory` times as heavy."""
    now = round(unit.curve.at(elapsed) * memory)
    peak = round(unit.curve.highest(0.0, elapsed) * memory)
    return replace(Running(unit, elapsed, now, peak), **changes)


def many(count):
    return [Unit(f"small{index:02}", SMALL) for index in range(count)]


def tails(count):
    """Units that have fallen to a quarter of a GiB and go on for 30 s."""
    curve = Curve(((0.0, GIB), (10.0, GIB), (11.0, GIB // 4), (60.0, GIB // 4)))
    return [at(Unit(f"tail{index:02}", curve), 30.0) for index in range(count)]


class TestStarting:
    def test_nothing_to_do(self):
        assert decide([], [], SIX, None) == Decision()

    def test_one_that_would_peak_with_another_waits_until_that_has_passed(self):
        first, second = hump("first"), hump("second")
        assert decide([first, second], [], SIX, None).start == ("first",)
        assert decide([second], [at(first, 20.0)], SIX, None).start == ()
        assert decide([second], [at(first, 57.0)], SIX, None).start == ("second",)

    def test_small_ones_start_beside_a_large_one_while_they_fit_at_its_peak(self):
        small = [Unit(f"small{index}", SMALL) for index in range(4)]
        assert len(decide(small, [at(hump(), 40.0)], SIX, None).start) == 2

    def test_the_longest_start_first(self):
        waiting = [Unit("short", SMALL), Unit("long", SMALL.scaled(time=3.0))]
        assert decide(waiting, [], Room(8 * GIB, cores=1), None).start == ("long",)

    def test_with_memory_to_spare_never_more_than_there_are_processors(self):
        assert len(decide(many(40), [], Room(100 * GIB, cores=6), None).start) == 6
        wide = [replace(unit, cores=3.5) for unit in many(40)]
        assert len(decide(wide, [], Room(100 * GIB, cores=6), None).start) == 2

    def test_with_little_memory_up_to_crowd_times_the_processors(self):
        room = Room(11 * GIB, cores=6)  # of which 6 smalls alone would take more than half
        for going in (6, 9, 12):
            started = decide(many(40), tails(going), room, None).start
            assert len(started) == 6 * CROWD - going
            assert decide(many(40), tails(going), Room(100 * GIB, cores=6), None).start == ()

    @pytest.mark.parametrize(("longest", "started"), [(400.0, 0), (260.0, 2), (200.0, 4)])
    def test_no_further_than_lets_the_longest_end_before_all_is_done(self, longest, started):
        """With all else 1740 s of 6 processors, which are busy: 7.7 may be at 260 s, 9.7 at 200."""
        waiting = [Unit("long", SMALL.scaled(time=longest / SMALL.duration)), *many(39)]
        decision = decide(waiting, tails(6), Room(11 * GIB, cores=6), None)
        assert len(decision.start) == started

    def test_the_last_ones_share_processors_so_that_they_end_together(self):
        last = [Unit(f"small{index}", SMALL) for index in range(3)]
        going = [at(Unit(f"going{index}", SMALL), 20.0) for index in range(3)]
        assert len(decide(last, going, Room(100 * GIB, cores=3), None).start) == 3
        going[0] = at(Unit("going0", SMALL.scaled(time=9.0)), 20.0)  # that decides, shared or not
        assert decide(last, going, Room(100 * GIB, cores=3), None).start == ()
        last[0] = Unit("last", SMALL.scaled(time=9.0))  # and this one had better start now
        assert "last" in decide(last, going, Room(100 * GIB, cores=3), None).start

    def test_what_waits_first_is_not_delayed_by_what_fits_before_it(self):
        long = Unit("long", SMALL.scaled(time=3.0, memory=5.0))
        waiting = [long, *(Unit(f"small{index}", SMALL) for index in range(9))]
        ending = at(Unit("ending", SMALL.scaled(memory=4.0)), 36.0)
        # four would fit beside the one that ends in 4 s, but then only three beside `long`
        assert len(decide(waiting, [ending], SIX, None).start) == 3

    def test_larger_than_the_room_runs_alone_and_that_is_said(self):
        large = hump("large")
        room = Room(4 * GIB, cores=8)
        waiting = [large, Unit("small", SMALL)]
        assert decide(waiting, [], room, None).start == ("small",)
        assert decide([large], [at(Unit("small", SMALL), 5.0)], room, None).start == ()
        alone = decide([large], [], room, None)
        assert alone.start == ("large",)
        assert "large is expected to need 6.0 GiB, more than the 4.0 GiB" in alone.say[0]
        assert decide([Unit("small", SMALL)], [at(large, 30.0)], room, None).start == ()

    def test_the_host_s_memory_counts_below_the_budget(self):
        small = [Unit(f"small{index}", SMALL) for index in range(8)]
        running = [at(Unit("going", SMALL), 5.0)]
        assert len(decide(small, running, SIX, 3 * GIB + 1).start) == 3
        assert len(decide(small, running, SIX, None).start) == 7
        assert len(decide(small, running, SIX, 500 * GIB).start) == 7


class TestWhatWasSeen:
    def test_as_expected_it_keeps_the_rest_of_its_curve(self):
        kept = reserved(at(hump(), 30.0), 1.0)
        assert kept[0] == pytest.approx(HUMP.at(30.0), rel=0.06)
        assert max(kept) == HUMP.peak
        assert kept[60] == pytest.approx(GIB, rel=0.01)

    def test_above_its_curve_it_keeps_more_of_everything_to_come(self):
        assert max(reserved(at(hump(), 40.0, memory=1.2), 1.0)) == pytest.approx(
            7.2 * GIB, rel=0.01
        )

    def test_below_its_curve_its_peak_may_still_come(self):
        assert max(reserved(at(hump(), 40.0, memory=0.8), 1.0)) == HUMP.peak

    def test_near_its_peak_a_lighter_one_stays_lighter(self):
        assert HUMP.at(56.0) > 0.8 * HUMP.peak
        kept = max(reserved(at(hump(), 56.0, memory=0.8), 1.0))
        assert kept == pytest.approx(0.8 * HUMP.peak, rel=0.01)

    def test_after_the_fall_only_the_rest_is_kept_by_what_its_peak_was(self):
        kept = reserved(at(hump(), 70.0, memory=0.8), 1.0)
        assert max(kept) == pytest.approx(0.8 * GIB, rel=0.01)

    def test_fallen_early_its_peak_is_over(self):
        early = Running(hump(), elapsed=45.0, now=GIB, peak=round(5.8 * GIB))
        assert max(reserved(early, 1.0)[10:]) == pytest.approx(GIB, rel=0.05)

    def test_more_than_a_heavier_one_would_have_is_a_faster_one_s(self):
        early = Running(hump(), elapsed=15.0, now=4 * GIB, peak=4 * GIB)
        kept = reserved(early, 1.0)
        assert HUMP.peak < max(kept) < 1.3 * HUMP.peak
        assert kept[60] < 2 * GIB, "its fall comes early, too"
        fallen = Running(hump(), elapsed=30.0, now=GIB, peak=6 * GIB)
        assert max(reserved(fallen, 1.0)[10:]) == pytest.approx(GIB, rel=0.05)

    def test_on_a_slower_host_it_is_not_as_far_as_its_time_says(self):
        running = [at(hump(), 57.0)]
        slow = [replace(running[0], elapsed=57.0 * 2)]
        waiting = [hump("next")]
        assert decide(waiting, slow, replace(SIX, pace=2.0), None).start == ("next",)
        early = [replace(at(hump(), 20.0), elapsed=40.0)]
        assert decide(waiting, early, replace(SIX, pace=2.0), None).start == ()

    def test_the_pace_is_what_ended_units_took(self):
        assert pace([]) == 1.0
        assert pace([(hump(), 195.0), (Unit("small", SMALL), 60.0)]) == pytest.approx(1.5)

    def test_a_fall_from_far_below_the_expected_peak_is_another_one(self):
        start = Running(hump(), elapsed=12.0, now=100 * MIB, peak=GIB)
        assert max(reserved(start, 1.0)) == HUMP.peak

    @pytest.mark.parametrize("now", [3.0, 5.9])
    def test_not_yet_fallen_however_late_its_peak_is_still_to_come(self, now):
        late = Running(hump(), elapsed=100.0, now=round(now * GIB), peak=round(now * GIB))
        assert max(reserved(late, 1.0)) >= 5.99 * GIB

    def test_longer_than_its_curve_it_keeps_what_it_has(self):
        late = Running(hump(), elapsed=150.0, now=GIB, peak=6 * GIB)
        assert min(reserved(late, 1.0)[:20]) >= GIB


class TestTooLittleMemory:
    def pair(self, memory):
        """Two that were started to peak one after the other, heavier than expected."""
        return [at(hump("old"), 52.0, memory=memory), at(hump("young"), 10.0, memory=memory)]

    def test_as_expected_both_go_on(self):
        assert decide([], self.pair(1.0), SIX, None) == Decision()

    def test_the_youngest_is_paused_before_memory_is_short(self):
        running = self.pair(1.1)
        assert sum(one.now for one in running) < SIX.budget
        decision = decide([], running, SIX, None)
        assert (decision.pause, decision.kill) == (("young",), ())

    def test_a_paused_one_resumes_when_the_other_has_fallen(self):
        paused = at(hump("young"), 15.0, paused=True)
        assert decide([], [at(hump("old"), 40.0, memory=1.15), paused], SIX, None).resume == ()
        assert decide([], [at(hump("old"), 66.0), paused], SIX, None).resume == ("young",)

    def test_nothing_starts_while_one_is_paused(self):
        small = [Unit("small", SMALL.scaled(memory=0.01))]
        assert decide(small, self.pair(1.1), SIX, None).start == ()
        assert decide(small, self.pair(1.0), SIX, None).start == ("small",)

    def test_one_always_runs(self):
        paused = [at(hump(name), 50.0, paused=True) for name in ("a", "b")]
        decision = decide([], paused, SIX, None)
        assert len(decision.resume) == 1
        assert len(decision.kill) == 1

    def test_what_only_falls_is_not_paused(self):
        old = at(Unit("old", HUMP.scaled(time=2.0)), 80.0, memory=1.3)
        falling = at(hump("falling"), 63.5)
        assert decide([], [old, falling], SIX, None) == Decision()
        assert decide([], [old, at(hump("rising"), 16.0)], SIX, None).pause == ("rising",)

    def test_when_pausing_is_not_enough_the_youngest_is_ended_and_that_is_said(self):
        running = [at(hump("old"), 55.0), at(hump("young"), 40.0)]
        decision = decide([], running, SIX, None)
        assert decision.kill == ("young",)
        assert decision.pause == ()
        assert "young is ended to keep within the 8.0 GiB" in decision.say[0]

    def test_none_is_ended_only_because_what_falls_might_fall_late(self):
        """A spike of 2 GiB falls at once, as expected; the oldest grows where it was."""
        spike = Curve(((0.0, 0), (5.0, 2 * GIB), (10.0, 0), (40.0, GIB)))
        running = [at(hump("old"), 55.0), at(Unit("spike", spike), 5.0)]
        assert sum(one.now for one in running) == 7.5 * GIB
        assert decide([], running, Room(round(7.6 * GIB), 8), None) == Decision()
        assert decide([], running, Room(round(7.4 * GIB), 8), None).kill == ("spike",)

    def test_while_the_host_is_pressed_the_oldest_alone_grows(self):
        """There would be room, by the budget and by MemAvailable."""
        running = [at(hump("old"), 20.0), at(hump("young"), 10.0)]
        room, small = Room(100 * GIB, 8), [Unit("small", SMALL)]
        assert decide(small, running, room, 90 * GIB).start == ("small",)
        pressed = decide(small, running, room, 90 * GIB, pressed=True)
        assert pressed == Decision(pause=("young",))
        paused = [running[0], replace(running[1], paused=True)]
        assert decide(small, paused, room, 90 * GIB, pressed=True) == Decision()
        assert decide(small, paused, room, 90 * GIB).resume == ("young",)
        assert decide(small, [], room, 90 * GIB, pressed=True).start == ("small",)

    def test_no_more_are_ended_than_must_be_the_youngest_first(self):
        running = [at(hump("old"), 55.0), at(hump("young"), 30.0), at(hump("mid"), 45.0)]
        decision = decide([], running, Room(11 * GIB, 8), None)
        assert (decision.kill, decision.pause) == (("young",), ("mid",))

    def test_the_host_running_short_counts_like_the_budget(self):
        running = self.pair(1.0)
        assert decide([], running, Room(64 * GIB, 8), 10 * GIB) == Decision()
        assert decide([], running, Room(64 * GIB, 8), 1200 * MIB).pause == ("young",)
        assert decide([], running, Room(64 * GIB, 8), 0).kill == ("young",)

    def test_the_last_one_is_never_ended(self):
        assert decide([], [at(hump(), 55.0, memory=3.0)], SIX, 0) == Decision()

    def test_an_ended_one_is_expected_heavier_than_it_was_seen(self):
        again = retry(at(hump(), 60.0, memory=1.3))
        assert again.curve.peak > 1.3 * HUMP.peak
        assert again.curve.duration == HUMP.duration
        assert retry(at(hump(), 50.0, memory=0.5)).curve.peak > HUMP.peak


@st.composite
def states(draw):
    """Any state at all: also ones that no run of this gate leads to."""
    everything = draw(units())
    cut = draw(st.integers(0, len(everything)))
    running = []
    for unit in everything[:cut]:
        elapsed = draw(st.floats(0.0, 1.3)) * unit.curve.duration
        now = draw(st.integers(0, 10 * 1024)) * MIB
        peak = now + draw(st.integers(0, 4 * 1024)) * MIB
        running.append(Running(unit, elapsed, now, peak, draw(st.booleans())))
    available = draw(st.none() | st.integers(0, 30).map(lambda gib: gib * GIB))
    return everything[cut:], running, draw(rooms), available


@steady(100)
@given(states())
def test_of_any_state(state):
    waiting, running, room, available = state
    decision = decide(waiting, running, room, available)
    running_names = {one.unit.name for one in running}
    paused = {one.unit.name for one in running if one.paused}
    assert set(decision.start) <= {unit.name for unit in waiting}
    assert set(decision.pause) <= running_names - paused
    assert set(decision.resume) <= paused
    assert set(decision.kill) <= running_names
    named = [*decision.start, *decision.pause, *decision.resume, *decision.kill]
    assert len(named) == len(set(named))

    going = running_names - paused - set(decision.pause) | set(decision.resume)
    going = going - set(decision.kill) | set(decision.start)
    assert going or not (waiting or running), "nothing would go on"
    if running:
        oldest = max(running, key=lambda one: (one.elapsed, [-ord(c) for c in one.unit.name]))
        assert oldest.unit.name in going
    assert decide(waiting, running, room, available) == decision
    swapped = decide(waiting[::-1], running[::-1], room, available)
    assert swapped == decision, "the order of what it is given makes no difference"


@steady(100)
@given(
    curves(), st.floats(0.0, 1.0), st.floats(0.5, 10.0), st.integers(0, 50), st.floats(-0.5, 0.5)
)
def test_as_expected_no_less_is_kept_than_will_be_needed(curve, share, step, moment, around):
    one = at(Unit("u", curve), share * curve.duration)
    kept = [*reserved(one, step), *[0] * 50]
    later = one.elapsed + (moment + around) * step
    if later >= one.elapsed:
        assert kept[moment] >= curve.at(later) - 1000


@steady(100)
@given(st.lists(curves(), min_size=1, max_size=6), rooms)
def test_what_starts_together_fits_at_every_moment(started, room):
    waiting = [Unit(f"u{index}", curve) for index, curve in enumerate(started)]
    by_name = {unit.name: unit.curve for unit in waiting}
    names = decide(waiting, [], room, None).start
    moments = [time for name in names for time, _ in by_name[name].points]
    highest = max(sum(by_name[name].at(time) for name in names) for time in moments)
    assert highest <= room.budget or len(names) == 1
