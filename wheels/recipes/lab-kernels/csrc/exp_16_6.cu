#include "series.cuh"

SERIES_UNIT(exp_16_6, Exponential, 16, 6, 24)
