#include "series.cuh"

SERIES_UNIT(exp_6, Exponential, 6, 16)
