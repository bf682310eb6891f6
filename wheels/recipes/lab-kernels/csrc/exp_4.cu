#include "series.cuh"

SERIES_UNIT(exp_4, Exponential, 4, 16)
