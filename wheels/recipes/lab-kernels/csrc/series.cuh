// Fractional powers of matrix functions: f(X)^(POWER/64) by its power series, one matrix a thread.
//
// The series of f^(1/64) is known; that of every further power is its product with the one before,
// multiplied at compile time with a class for each partial sum. That is what makes these units as
// hard on the compiler as attention kernels are: memory grows with POWER * TERMS^2, and the time
// after its peak with ORDER^3 * TERMS.
#pragma once

#include <cuda_runtime.h>

namespace series {

// exp(X/64): c(k) = (1/64)^k / k!
struct Exponential {
  static constexpr double ratio(int k) { return 1.0 / 64 / k; }
};

// (1 + X)^(1/64): c(k) = binomial(1/64, k)
struct Binomial {
  static constexpr double ratio(int k) { return (1.0 / 64 - k + 1) / k; }
};

// (1 - X)^(-1/64)
struct Inverse {
  static constexpr double ratio(int k) { return (1.0 / 64 + k - 1) / k; }
};

// c(k) of f^(POWER/64)
template <class F, int POWER, int K>
struct Coefficient;

// The sum over j <= J of c(j) of f^((POWER-1)/64) and c(K-j) of f^(1/64)
template <class F, int POWER, int K, int J>
struct Partial {
  static constexpr double value =
      Partial<F, POWER, K, J - 1>::value +
      Coefficient<F, POWER - 1, J>::value * Coefficient<F, 1, K - J>::value;
};

template <class F, int POWER, int K>
struct Partial<F, POWER, K, -1> {
  static constexpr double value = 0.0;
};

template <class F, int POWER, int K>
struct Coefficient {
  static constexpr double value = Partial<F, POWER, K, K>::value;
};

template <class F, int K>
struct Coefficient<F, 1, K> {
  static constexpr double value = Coefficient<F, 1, K - 1>::value * F::ratio(K);
};

template <class F>
struct Coefficient<F, 1, 0> {
  static constexpr double value = 1.0;
};

template <int N>
struct Matrix {
  float at[N][N];
};

// a b + c 1
template <int N>
__device__ __forceinline__ Matrix<N> step(const Matrix<N>& a, const Matrix<N>& b, float c) {
  Matrix<N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float sum = i == j ? c : 0.0f;
#pragma unroll
      for (int k = 0; k < N; ++k) sum = fmaf(a.at[i][k], b.at[k][j], sum);
      result.at[i][j] = sum;
    }
  }
  return result;
}

// Horner's rule, from the coefficient K down to the first.
template <class F, int POWER, int K, int N>
__device__ __forceinline__ Matrix<N> horner(const Matrix<N>& sum, const Matrix<N>& x) {
  if constexpr (K < 0) {
    return sum;
  } else {
    constexpr double c = Coefficient<F, POWER, K>::value;
    return horner<F, POWER, K - 1>(step(sum, x, static_cast<float>(c)), x);
  }
}

// `count` matrices, row by row, one after the other.
template <class F, int POWER, int N, int TERMS>
__global__ void evaluate(const float* in, float* out, int count) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= count) return;
  in += N * N * static_cast<long long>(thread);
  out += N * N * static_cast<long long>(thread);
  constexpr double last = Coefficient<F, POWER, TERMS - 1>::value;
  Matrix<N> x, sum;
#pragma unroll
  for (int at = 0; at < N * N; ++at) {
    x.at[at / N][at % N] = in[at];
    sum.at[at / N][at % N] = at / N == at % N ? static_cast<float>(last) : 0.0f;
  }
  sum = horner<F, POWER, TERMS - 2>(sum, x);
#pragma unroll
  for (int at = 0; at < N * N; ++at) out[at] = sum.at[at / N][at % N];
}

}  // namespace series

// A unit: the C function NAME(in, out, count) on device memory; it returns the launch's cudaError_t.
#define SERIES_UNIT(NAME, FUNCTION, POWER, ORDER, TERMS)                        \
  extern "C" int NAME(const float* in, float* out, int count) {                 \
    series::evaluate<series::FUNCTION, POWER, ORDER, TERMS>                     \
        <<<(count + 63) / 64, 64>>>(in, out, count);                            \
    return cudaGetLastError();                                                  \
  }
