#include "series.cuh"

SERIES_UNIT(log_6, Logarithm, 6, 64)
