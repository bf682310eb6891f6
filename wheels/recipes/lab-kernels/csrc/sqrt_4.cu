#include "series.cuh"

SERIES_UNIT(sqrt_4, SquareRoot, 4, 64)
