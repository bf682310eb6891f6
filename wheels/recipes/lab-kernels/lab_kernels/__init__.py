"""Fractional powers of functions of small matrices, evaluated on a GPU in float32.

    >>> evaluate("exp_8_2", [[[8.0, 0.0], [0.0, 0.0]]])
    [[[2.7182819843292236, 0.0], [0.0, 1.0]]]

Importing needs neither a GPU nor CUDA's libraries; they are loaded by the first call.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Sequence
from pathlib import Path

Matrix = Sequence[Sequence[float]]

UNITS = (
    "binomial_62_8",
    "binomial_63_8",
    "binomial_8_4",
    "exp_16_6",
    "exp_48_8",
    "exp_8_2",
    "inverse_16_8",
    "inverse_24_6",
    "inverse_4_10",
    "inverse_8_4",
)
"""The kernels: function, power in 64ths, and the number of rows of the matrices that it takes.

`binomial_8_4` is (1 + X)^(8/64), `inverse_8_4` (1 - X)^(-8/64), `exp_8_2` exp(8/64 X). The first
two converge for norms below 1, and to float32's precision for norms up to 3/4.
"""

LIBRARY = Path(__file__).with_name("_kernels.so")

if not LIBRARY.is_file():
    raise ImportError(f"{LIBRARY} is missing: install lab-kernels from its wheel")


def evaluate(unit: str, matrices: Sequence[Matrix]) -> list[list[list[float]]]:
    """A unit's function of every matrix.

    Raises ValueError for an unknown unit or a matrix of another size, OSError when CUDA's runtime
    can't be loaded, RuntimeError with CUDA's own words when the GPU does not do it.
    """
    if unit not in UNITS:
        raise ValueError(f"there is no unit {unit!r}: expected one of {', '.join(UNITS)}")
    order = int(unit.rpartition("_")[2])
    if any(len(m) != order or any(len(row) != order for row in m) for m in matrices):
        raise ValueError(f"{unit} takes matrices of {order} rows and columns")
    if not matrices:
        return []
    flat = [value for matrix in matrices for row in matrix for value in row]
    floats = ctypes.c_float * len(flat)
    results = floats()
    library = _load()
    status = library.lab_kernels_evaluate(unit.encode(), floats(*flat), results, len(matrices))
    if status:
        raise RuntimeError(f"{unit}: CUDA says: {library.lab_kernels_error(status).decode()}")
    rows = [list(results[at : at + order]) for at in range(0, len(flat), order)]
    return [rows[at : at + order] for at in range(0, len(rows), order)]


@functools.cache
def _load() -> ctypes.CDLL:
    """The library, with CUDA's runtime from the environment's own packages where they have it."""
    nvidia = importlib.util.find_spec("nvidia")
    for folder in (nvidia and nvidia.submodule_search_locations) or ():
        for runtime in sorted(Path(folder).glob("*/lib/libcudart.so.*")):
            ctypes.CDLL(str(runtime))
    library = ctypes.CDLL(str(LIBRARY))
    library.lab_kernels_error.restype = ctypes.c_char_p
    return library
