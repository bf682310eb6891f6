// What Python calls: it finds the unit, and moves the matrices to the GPU and back.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstring>

#define UNITS(EACH)                                                                     \
  EACH(binomial_62_8, 8) EACH(binomial_63_8, 8) EACH(binomial_8_4, 4) EACH(exp_16_6, 6) \
  EACH(exp_48_8, 8) EACH(exp_8_2, 2) EACH(inverse_16_8, 8) EACH(inverse_24_6, 6)        \
  EACH(inverse_4_10, 10) EACH(inverse_8_4, 4)

#define DECLARE(NAME, ORDER) extern "C" int NAME(const float* in, float* out, int count);
UNITS(DECLARE)

namespace {

struct Unit {
  const char* name;
  int order;
  int (*launch)(const float* in, float* out, int count);
};

#define ROW(NAME, ORDER) {#NAME, ORDER, NAME},
const Unit units[] = {UNITS(ROW)};

int evaluate(const Unit& unit, const float* in, float* out, int count) {
  const std::size_t bytes = sizeof(float) * unit.order * unit.order * count;
  float* device = nullptr;  // the matrices, and behind them the results
  int status = cudaMalloc(reinterpret_cast<void**>(&device), 2 * bytes);
  if (status) return status;
  float* results = device + bytes / sizeof(float);
  status = cudaMemcpy(device, in, bytes, cudaMemcpyHostToDevice);
  if (!status) status = unit.launch(device, results, count);
  if (!status) status = cudaMemcpy(out, results, bytes, cudaMemcpyDeviceToHost);
  cudaFree(device);
  return status;
}

}  // namespace

// Evaluates `count` matrices on the current GPU; returns a cudaError_t.
extern "C" int lab_kernels_evaluate(const char* name, const float* in, float* out, int count) {
  for (const Unit& unit : units)
    if (!std::strcmp(unit.name, name)) return evaluate(unit, in, out, count);
  return cudaErrorInvalidValue;
}

extern "C" const char* lab_kernels_error(int status) {
  return cudaGetErrorString(static_cast<cudaError_t>(status));
}
