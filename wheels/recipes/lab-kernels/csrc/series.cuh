// Power series of small matrices: f(X) = sum of c(k) X^k by Horner's rule, one matrix a thread,
// wholly in registers.
//
// Every multiplication is a template instance of its own, in pairs of steps and indices. That is
// what makes these units as hard on the compiler as attention kernels are: memory and time grow
// with ORDER^3 * TERMS.
#pragma once

#include <cuda_runtime.h>

#include <utility>

namespace series {

template <int N>
struct Matrix {
  float at[N][N];
};

// exp X = sum of X^k / k!
struct Exponential {
  __host__ __device__ static constexpr double coefficient(int k) {
    return k == 0 ? 1.0 : coefficient(k - 1) / k;
  }
};

// (1 - X)^-1 = sum of X^k
struct Inverse {
  __host__ __device__ static constexpr double coefficient(int) { return 1.0; }
};

// log(1 + X) = X - X^2/2 + X^3/3 - ...
struct Logarithm {
  __host__ __device__ static constexpr double coefficient(int k) {
    return k == 0 ? 0.0 : (k % 2 ? 1.0 : -1.0) / k;
  }
};

// (1 + X)^(1/2) = sum of binomial(1/2, k) X^k
struct SquareRoot {
  __host__ __device__ static constexpr double coefficient(int k) {
    return k == 0 ? 1.0 : coefficient(k - 1) * (1.5 - k) / k;
  }
};

template <int STEP, int I, int J, int K, int N>
__device__ __forceinline__ float term(const Matrix<N>& a, const Matrix<N>& b, float sum) {
  return fmaf(a.at[I][K], b.at[K][J], sum);
}

template <class F, int STEP, int I, int J, int N, int... K>
__device__ __forceinline__ float entry(const Matrix<N>& a, const Matrix<N>& b,
                                       std::integer_sequence<int, K...>) {
  constexpr double coefficient = F::coefficient(STEP);
  float sum = I == J ? static_cast<float>(coefficient) : 0.0f;
  ((sum = term<STEP, I, J, K>(a, b, sum)), ...);
  return sum;
}

// a b + c(STEP) 1
template <class F, int STEP, int N, int... AT>
__device__ __forceinline__ Matrix<N> step(const Matrix<N>& a, const Matrix<N>& b,
                                          std::integer_sequence<int, AT...>) {
  Matrix<N> result;
  ((result.at[AT / N][AT % N] =
        entry<F, STEP, AT / N, AT % N>(a, b, std::make_integer_sequence<int, N>{})),
   ...);
  return result;
}

template <class F, int STEP, int N>
__device__ __forceinline__ Matrix<N> horner(const Matrix<N>& sum, const Matrix<N>& x) {
  if constexpr (STEP < 0) {
    return sum;
  } else {
    return horner<F, STEP - 1>(
        step<F, STEP>(sum, x, std::make_integer_sequence<int, N * N>{}), x);
  }
}

// `count` matrices, row by row, one after the other.
template <class F, int N, int TERMS>
__global__ void evaluate(const float* in, float* out, int count) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= count) return;
  in += N * N * static_cast<long long>(thread);
  out += N * N * static_cast<long long>(thread);
  constexpr double last = F::coefficient(TERMS - 1);
  Matrix<N> x, sum;
#pragma unroll
  for (int at = 0; at < N * N; ++at) {
    x.at[at / N][at % N] = in[at];
    sum.at[at / N][at % N] = at / N == at % N ? static_cast<float>(last) : 0.0f;
  }
  sum = horner<F, TERMS - 2>(sum, x);
#pragma unroll
  for (int at = 0; at < N * N; ++at) out[at] = sum.at[at / N][at % N];
}

}  // namespace series

// A unit: the C function NAME(in, out, count) on device memory; it returns the launch's cudaError_t.
#define SERIES_UNIT(NAME, FUNCTION, ORDER, TERMS)                                            \
  extern "C" int NAME(const float* in, float* out, int count) {                              \
    series::evaluate<series::FUNCTION, ORDER, TERMS><<<(count + 63) / 64, 64>>>(in, out, count); \
    return cudaGetLastError();                                                               \
  }
