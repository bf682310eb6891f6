#include "series.cuh"

SERIES_UNIT(binomial_63_8, Binomial, 63, 8, 64)
