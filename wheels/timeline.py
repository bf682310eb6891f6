"""Moments on an axis from which the time between two runs of a build is cut out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

LONGEST = 20.0
"""Seconds without a record that are still shown as they were: ten samples of memory."""
CUT = 0.02
"""Share of all the rest that a cut takes on the axis."""

Span = tuple[float, float]
"""From when to when, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Stretches in which something went on; what lies between them is short on the axis."""

    stretches: Sequence[Span]
    """In order, apart from one another."""

    @property
    def busy(self) -> float:
        """Seconds of all stretches."""
        return sum(end - start for start, end in self.stretches)

    @property
    def cut(self) -> float:
        """Seconds of the axis that one cut takes."""
        return CUT * self.busy

    @property
    def length(self) -> float:
        """Seconds of the whole axis, cuts included."""
        return self.busy + self.cut * (len(self.stretches) - 1)

    @property
    def cuts(self) -> list[tuple[float, float]]:
        """Where on the axis each cut begins, and how many seconds are left out there."""
        return [(self.at(end), start - end) for (_, end), (start, _) in pairwise(self.stretches)]

    def at(self, moment: float) -> float:
        """Seconds from the axis' beginning."""
        place = 0.0
        for start, end in self.stretches:
            if moment <= end:
                return place + max(0.0, moment - start)
            place += end - start + self.cut
        return self.length

    def split(self, moments: Sequence[float]) -> list[list[int]]:
        """Which of the moments (in order) lie in which stretch, by their indices."""
        return [
            [index for index, moment in enumerate(moments) if start <= moment <= end]
            for start, end in self.stretches
        ]


def timeline(spans: Iterable[Span]) -> Timeline:
    """The axis for what went on; of several spans that overlap or nearly meet it makes one."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start - joined[-1][1] <= LONGEST:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return Timeline(tuple(joined))
