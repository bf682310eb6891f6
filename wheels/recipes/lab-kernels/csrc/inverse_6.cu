#include "series.cuh"

SERIES_UNIT(inverse_6, Inverse, 6, 64)
