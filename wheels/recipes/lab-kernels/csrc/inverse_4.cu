#include "series.cuh"

SERIES_UNIT(inverse_4, Inverse, 4, 64)
