"""`python -m lab_kernels` holds every unit, on this machine's GPU, to its series in float64.

It prints the largest error of each, and ends with exit code 1 when one is too large.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable

from lab_kernels import UNITS, Matrix, evaluate

COUNT = 130
"""Matrices a unit: two full blocks of threads, and a third that is not."""
NORM = 0.6
"""Their largest absolute row sum: inside the radius of every series."""
TOLERANCE = 1e-5
"""The largest absolute error of an entry: float32 rounds to 6e-8, and these add up hundreds."""

RATIO: dict[str, Callable[[float, int], float]] = {
    "binomial": lambda power, k: (power - k + 1) / k,
    "exp": lambda power, k: power / k,
    "inverse": lambda power, k: (power + k - 1) / k,
}
"""A coefficient of each function's power over the one before it, from the first on."""


def series(unit: str, x: Matrix, terms: int = 64) -> list[list[float]]:
    """A unit's function of a matrix, power by power, in float64.

    Its coefficients come from closed forms; the kernels' own come from multiplied series.
    """
    function, sixty_fourths, _ = unit.split("_")
    order = range(len(x))
    power = [[float(i == j) for j in order] for i in order]
    total = power
    coefficient = 1.0
    for k in range(1, terms):
        power = [[sum(row[n] * x[n][j] for n in order) for j in order] for row in power]
        coefficient *= RATIO[function](int(sixty_fourths) / 64, k)
        total = [[total[i][j] + coefficient * power[i][j] for j in order] for i in order]
    return total


def sample(order: int, source: random.Random) -> list[list[float]]:
    """A random matrix of that norm."""
    rows = [[source.uniform(-1, 1) for _ in range(order)] for _ in range(order)]
    norm = max(sum(map(abs, row)) for row in rows)
    return [[value * NORM / norm for value in row] for row in rows]


def distance(a: Matrix, b: Matrix) -> float:
    """The largest difference of two entries; infinite when one is not a number."""
    entries = zip((v for row in a for v in row), (v for row in b for v in row), strict=True)
    return max(abs(x - y) if math.isfinite(x - y) else math.inf for x, y in entries)


def main() -> int:
    """Print the largest error of each unit; 1 if one is too large."""
    source = random.Random(1)  # noqa: S311  samples, not secrets
    worst = 0.0
    for unit in UNITS:
        order = int(unit.rpartition("_")[2])
        matrices = [sample(order, source) for _ in range(COUNT)]
        results = evaluate(unit, matrices)
        error = max(
            distance(series(unit, matrix), result)
            for matrix, result in zip(matrices, results, strict=True)
        )
        print(f"{unit:14} {error:.1e}")  # noqa: T201
        worst = max(worst, error)
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
