"""Compare every unit on this machine's GPU with the same series in float64: exit 1 if one is off.

python -m lab_kernels
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

from lab_kernels import UNITS, Matrix, evaluate

COUNT = 1000
"""Matrices a unit."""
NORM = 0.6
"""Their largest absolute row sum: inside the radius of every series."""
TOLERANCE = 1e-5
"""Largest absolute error: float32 rounds to 6e-8, a sum of 64 products of 8 terms 100 times so."""

NEXT: dict[str, Callable[[int], float]] = {
    "exp": lambda k: 1 / k,
    "inverse": lambda _: 1.0,
    "log": lambda k: -(k - 1) / k if k > 1 else 1.0,
    "sqrt": lambda k: (1.5 - k) / k,
}
"""A coefficient of each series from the one before it, from the first power on."""


def series(function: str, x: Matrix, terms: int = 100) -> list[list[float]]:
    """The series of a matrix, power by power, in float64."""
    order = range(len(x))
    power = [[float(i == j) for j in order] for i in order]
    total = [[float(function != "log" and i == j) for j in order] for i in order]
    coefficient = 1.0
    for k in range(1, terms):
        power = [[sum(row[n] * x[n][j] for n in order) for j in order] for row in power]
        coefficient *= NEXT[function](k)
        total = [[total[i][j] + coefficient * power[i][j] for j in order] for i in order]
    return total


def sample(order: int, source: random.Random) -> list[list[float]]:
    """A random matrix of that norm."""
    rows = [[source.uniform(-1, 1) for _ in range(order)] for _ in range(order)]
    norm = max(sum(map(abs, row)) for row in rows)
    return [[value * NORM / norm for value in row] for row in rows]


def main() -> int:
    """Print the largest error of each unit; 1 if one is too large."""
    source = random.Random(1)  # noqa: S311  samples, not secrets
    worst = 0.0
    for unit, order in UNITS.items():
        matrices = [sample(order, source) for _ in range(COUNT)]
        found = evaluate(unit, matrices)
        function = unit.partition("_")[0]
        error = max(
            abs(a - b)
            for matrix, result in zip(matrices[::50], found[::50], strict=True)
            for wanted, row in zip(series(function, matrix), result, strict=True)
            for a, b in zip(wanted, row, strict=True)
        )
        print(f"{unit:10} {error:.1e}")  # noqa: T201
        worst = max(worst, error)
    return int(not worst <= TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
