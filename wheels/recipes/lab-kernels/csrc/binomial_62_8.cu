#include "series.cuh"

SERIES_UNIT(binomial_62_8, Binomial, 62, 8, 64)
