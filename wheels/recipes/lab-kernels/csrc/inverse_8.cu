#include "series.cuh"

SERIES_UNIT(inverse_8, Inverse, 8, 64)
