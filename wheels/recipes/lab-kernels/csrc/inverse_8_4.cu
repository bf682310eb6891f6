#include "series.cuh"

SERIES_UNIT(inverse_8_4, Inverse, 8, 4, 64)
