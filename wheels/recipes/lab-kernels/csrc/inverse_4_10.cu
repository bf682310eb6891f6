#include "series.cuh"

SERIES_UNIT(inverse_4_10, Inverse, 4, 10, 64)
