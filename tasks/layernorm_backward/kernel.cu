// SPDX-License-Identifier: Apache-2.0
// Gradient of layer normalization. The first kernel gives dx: BLOCK threads share a row, a block holds
// ROWS rows. The second sums dy * xhat and dy over PARTS groups of rows, a thread per column; the third
// adds the groups in order.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float ToFloat(float value) { return value; }
__device__ __forceinline__ float ToFloat(__half value) { return __half2float(value); }
__device__ __forceinline__ float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T> __device__ __forceinline__ T FromFloat(float value);
template <> __device__ __forceinline__ float FromFloat<float>(float value) { return value; }
template <> __device__ __forceinline__ __half FromFloat<__half>(float value) {
  return __float2half(value);
}
template <> __device__ __forceinline__ __nv_bfloat16 FromFloat<__nv_bfloat16>(float value) {
  return __float2bfloat16(value);
}

template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T values[N]; };

__device__ __forceinline__ bool Aligned(const void* pointer, int bytes) {
  return reinterpret_cast<unsigned long long>(pointer) % bytes == 0;
}

// Sum over the BLOCK threads of a row; every thread gets it.
__device__ __forceinline__ float RowSum(float value, float* partial) {
  for (int offset = 16; offset > 0; offset >>= 1) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  if (BLOCK == 32) return value;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  __syncthreads();  // The previous sum has been read.
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  value = 0;
  for (int i = 0; i < BLOCK / 32; ++i) value += partial[i];
  return value;
}

template <typename T, int N>
__device__ __forceinline__ void RowGradient(const T* dy, const T* x, const T* gamma, float mean, float rstd,
                                            T* dx, bool live, int cols, float* partial) {
  using Packed = Pack<T, N>;
  const Packed* packed_dy = reinterpret_cast<const Packed*>(dy);
  const Packed* packed_x = reinterpret_cast<const Packed*>(x);
  const Packed* packed_gamma = reinterpret_cast<const Packed*>(gamma);
  const int packs = live ? cols / N : 0;
  float sum = 0, along = 0;
  for (int i = threadIdx.x; i < packs; i += BLOCK) {
    const Packed d = packed_dy[i], v = packed_x[i], g = packed_gamma[i];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float weighted = ToFloat(d.values[k]) * ToFloat(g.values[k]);
      sum += weighted;
      along += weighted * ((ToFloat(v.values[k]) - mean) * rstd);
    }
  }
  sum = RowSum(sum, partial) / cols;
  along = RowSum(along, partial) / cols;
  for (int i = threadIdx.x; i < packs; i += BLOCK) {
    const Packed d = packed_dy[i], v = packed_x[i], g = packed_gamma[i];
    Packed out;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float weighted = ToFloat(d.values[k]) * ToFloat(g.values[k]);
      const float xhat = (ToFloat(v.values[k]) - mean) * rstd;
      out.values[k] = FromFloat<T>(rstd * (weighted - sum - xhat * along));
    }
    reinterpret_cast<Packed*>(dx)[i] = out;
  }
}

template <typename T>
__global__ void __launch_bounds__(BLOCK* ROWS)
    layernorm_bwd_rows(const T* dy, const T* x, const T* gamma, const float* mean, const float* rstd,
                    T* dx, int rows, int cols) {
  __shared__ float partial[ROWS][BLOCK / 32 + 1];
  const int row = blockIdx.x * ROWS + threadIdx.y;
  const bool live = row < rows;  // Threads without a row still meet the others at the barriers.
  const long long start = live ? static_cast<long long>(row) * cols : 0;
  const int bytes = sizeof(T) * VEC;
  const bool vector = cols % VEC == 0 && Aligned(dy, bytes) && Aligned(x, bytes) && Aligned(dx, bytes) &&
                      Aligned(gamma, bytes);
  const float r = live ? rstd[row] : 0.0f;
  const float m = live ? mean[row] : 0.0f;
  float* sums = partial[threadIdx.y];
  if (vector) {
    RowGradient<T, VEC>(dy + start, x + start, gamma, m, r, dx + start, live, cols, sums);
  } else {
    RowGradient<T, 1>(dy + start, x + start, gamma, m, r, dx + start, live, cols, sums);
  }
}

// partial holds PARTS rows of sums for dgamma, then PARTS for dbeta.
template <typename T>
__global__ void __launch_bounds__(COLS)
    layernorm_bwd_partial(const T* dy, const T* x, const float* mean, const float* rstd, float* partial,
                          int rows, int cols) {
  const int col = blockIdx.x * COLS + threadIdx.x;
  if (col >= cols) return;
  float scales = 0, shifts = 0;
  for (int row = blockIdx.y; row < rows; row += PARTS) {
    const long long at = static_cast<long long>(row) * cols + col;
    const float d = ToFloat(dy[at]);
    scales += d * ((ToFloat(x[at]) - mean[row]) * rstd[row]);
    shifts += d;
  }
  partial[static_cast<long long>(blockIdx.y) * cols + col] = scales;
  partial[static_cast<long long>(PARTS + blockIdx.y) * cols + col] = shifts;
}

extern "C" __global__ void __launch_bounds__(COLS)
    layernorm_bwd_final(const float* partial, float* dgamma, float* dbeta, int cols) {
  const int col = blockIdx.x * COLS + threadIdx.x;
  if (col >= cols) return;
  float scales = 0, shifts = 0;
  for (int part = 0; part < PARTS; ++part) {
    scales += partial[static_cast<long long>(part) * cols + col];
    shifts += partial[static_cast<long long>(PARTS + part) * cols + col];
  }
  dgamma[col] = scales;
  dbeta[col] = shifts;
}
