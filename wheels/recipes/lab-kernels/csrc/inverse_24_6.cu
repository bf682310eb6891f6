#include "series.cuh"

SERIES_UNIT(inverse_24_6, Inverse, 24, 6, 64)
