#include "series.cuh"

SERIES_UNIT(inverse_16_8, Inverse, 16, 8, 64)
