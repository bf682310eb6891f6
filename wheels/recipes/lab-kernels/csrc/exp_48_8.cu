#include "series.cuh"

SERIES_UNIT(exp_48_8, Exponential, 48, 8, 32)
