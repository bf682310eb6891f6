#include "series.cuh"

SERIES_UNIT(binomial_8_4, Binomial, 8, 4, 64)
