#include "series.cuh"

SERIES_UNIT(exp_8, Exponential, 8, 16)
