#include "series.cuh"

SERIES_UNIT(exp_8_2, Exponential, 8, 2, 16)
