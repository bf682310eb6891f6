"""A compiler's memory over its run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.steady import steady
from tests.unit.curves import GIB, HUMP, curves
from wheels.remote.curve import Curve, sampled

shares = st.floats(0.0, 1.0)


def test_between_points_memory_rises_and_falls_evenly():
    assert [HUMP.at(time) for time in (0.0, 5.0, 35.0, 62.0, 130.0)] == [
        *(0, GIB // 2, 3.5 * GIB, 3.5 * GIB, GIB)
    ]
    assert HUMP.at(-0.1) == HUMP.at(130.1) == 0


def test_area_is_what_it_takes_of_a_budget_over_time():
    assert HUMP.area == pytest.approx((5 + 175 + 14 + 66) * GIB)


def test_the_highest_of_a_part_may_lie_between_points_or_at_one():
    assert HUMP.highest(0.0, 5.0) == GIB // 2
    assert HUMP.highest(20.0, 100.0) == HUMP.peak == 6 * GIB
    assert HUMP.highest(64.0, 200.0) == GIB


def test_the_first_moment_with_so_much_memory():
    assert HUMP.reaches(0) == 0.0
    assert HUMP.reaches(GIB) == 10.0
    assert HUMP.reaches(round(3.5 * GIB)) == pytest.approx(35.0)
    with pytest.raises(ValueError, match="never"):
        HUMP.reaches(HUMP.peak + 1)


@pytest.mark.parametrize(
    "points",
    [
        (),
        ((0.0, 1),),
        ((1.0, 1), (2.0, 1)),
        ((0.0, 1), (0.0, 2)),
        ((0.0, 1), (2.0, 1), (1.0, 1)),
        ((0.0, 1), (float("inf"), 1)),
        ((0.0, 1), (float("nan"), 1)),
        ((0.0, -1), (1.0, 1)),
    ],
)
def test_what_is_no_curve_is_refused(points):
    with pytest.raises(ValueError, match="a curve"):
        Curve(points)


@pytest.mark.parametrize("data", [None, 3, [1, 2], [[0, 1], [1]], [[0, "x"], [1, 2]], [[0, 1e999]]])
def test_json_that_holds_no_curve_is_a_value_error(data):
    with pytest.raises(ValueError):  # noqa: PT011 (which message depends on where it is wrong)
        Curve.from_json(data)


@steady(100)
@given(curves())
def test_json_and_back(curve):
    assert Curve.from_json(curve.to_json()) == curve


@steady(100)
@given(curves(), shares, shares)
def test_what_remains_goes_on_where_the_curve_does(curve, after, later):
    after *= curve.duration
    rest = curve.remaining(after)
    if rest is None:
        assert after == curve.duration
        return
    later *= rest.duration
    slope = max(
        abs(b[1] - a[1]) / (b[0] - a[0])
        for a, b in zip(curve.points, curve.points[1:], strict=False)
    )
    assert rest.duration == pytest.approx(curve.duration - after)
    assert rest.at(later) == pytest.approx(curve.at(after + later), abs=2 + slope * 1e-6)


@steady(100)
@given(curves(), st.floats(0.5, 2.0), st.floats(0.5, 2.0))
def test_scaling_stretches_time_and_memory(curve, time, memory):
    scaled = curve.scaled(time=time, memory=memory)
    assert scaled.duration == pytest.approx(curve.duration * time)
    assert scaled.peak == pytest.approx(curve.peak * memory, abs=1)
    assert scaled.area == pytest.approx(curve.area * time * memory, rel=1e-6, abs=1000)


@steady(100)
@given(curves(), st.floats(0.3, 20.0), shares)
def test_samples_are_never_below_the_curve_around_them(curve, step, share):
    moment = share * curve.duration
    assert sampled(curve, step)[round(moment / step)] >= curve.at(moment)
    assert max(sampled(curve, step)) == curve.peak
