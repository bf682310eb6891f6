"""A compiler's memory over its run, as straight lines between a few points.

Between its points a curve is linear; a fall "at once" is a steep line. Before its first point and
after its last a unit has no memory at all. As JSON: [[seconds, bytes], …].
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any

Point = tuple[float, int]
"""Seconds since the start, bytes."""


@dataclass(frozen=True)
class Curve:
    """Memory of one unit; ValueError says what is wrong with the points."""

    points: tuple[Point, ...]
    """The first at 0 seconds, then rising times; at least two."""

    def __post_init__(self) -> None:
        times = [time for time, _ in self.points]
        if len(times) < 2 or times[0] != 0:
            raise ValueError("a curve has two points or more, the first at 0 seconds")
        if any(b <= a for a, b in pairwise(times)) or not math.isfinite(times[-1]):
            raise ValueError("a curve's times rise from point to point")
        if any(size < 0 for _, size in self.points):
            raise ValueError("a curve's bytes are never below 0")

    @cached_property
    def _times(self) -> tuple[float, ...]:
        return tuple(time for time, _ in self.points)

    @cached_property
    def duration(self) -> float:
        """Seconds."""
        return self.points[-1][0]

    @cached_property
    def peak(self) -> int:
        """Bytes at most."""
        return max(size for _, size in self.points)

    @cached_property
    def area(self) -> float:
        """Byte-seconds: what the unit takes from a budget, whenever it runs."""
        return sum(
            (after[0] - before[0]) * (before[1] + after[1]) / 2
            for before, after in pairwise(self.points)
        )

    def at(self, seconds: float) -> int:
        """Bytes at a moment; 0 outside the run."""
        if not 0 <= seconds <= self.duration:
            return 0
        index = bisect_right(self._times, seconds)
        before = self.points[index - 1]
        if before[0] == seconds:
            return before[1]
        after = self.points[index]
        share = (seconds - before[0]) / (after[0] - before[0])
        return round(before[1] + share * (after[1] - before[1]))

    def highest(self, start: float, end: float) -> int:
        """Bytes at most between two moments, both included."""
        first, last = bisect_right(self._times, start), bisect_left(self._times, end)
        inside = (size for _, size in self.points[first:last])
        return max(self.at(start), self.at(end), *inside)

    def reaches(self, size: int) -> float:
        """The first moment, in seconds, with so many bytes; ValueError where there is none."""
        before = self.points[0]
        for after in self.points:
            if after[1] >= size:
                rise = after[1] - before[1]
                share = (size - before[1]) / rise if rise else 1.0
                return before[0] + share * (after[0] - before[0])
            before = after
        raise ValueError(f"the curve never has {size} bytes")

    def remaining(self, after: float) -> Curve | None:
        """What is still to come `after` so many seconds; None where nothing is."""
        if after <= 0:
            return self
        if after >= self.duration:
            return None
        rest = self.points[bisect_right(self._times, after) :]
        return Curve(((0.0, self.at(after)), *((time - after, size) for time, size in rest)))

    def scaled(self, *, time: float = 1.0, memory: float = 1.0) -> Curve:
        """As on a slower host (`time` above 1), or for a heavier unit (`memory` above 1)."""
        return Curve(tuple((at * time, round(size * memory)) for at, size in self.points))

    def to_json(self) -> list[list[float]]:
        """As JSON has it."""
        return [[time, size] for time, size in self.points]

    @staticmethod
    def from_json(data: Any) -> Curve:  # noqa: ANN401 (whatever a file holds)
        """What `to_json` gave; ValueError where it is something else."""
        try:
            return Curve(tuple((float(time), int(size)) for time, size in data))
        except (TypeError, OverflowError) as error:
            raise ValueError("a curve is a list of pairs, seconds and bytes") from error


@lru_cache(maxsize=4096)
def sampled(curve: Curve, step: float) -> tuple[int, ...]:
    """Bytes at 0, `step`, 2 `step` … seconds: never less than the curve half a step around."""
    count = math.ceil(curve.duration / step) + 1
    return tuple(
        curve.highest(max((index - 0.5) * step, 0.0), min((index + 0.5) * step, curve.duration))
        for index in range(count)
    )
