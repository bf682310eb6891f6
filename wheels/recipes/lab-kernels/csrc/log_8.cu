#include "series.cuh"

SERIES_UNIT(log_8, Logarithm, 8, 64)
