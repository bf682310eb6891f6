#include "series.cuh"

SERIES_UNIT(log_4, Logarithm, 4, 64)
