// SPDX-License-Identifier: Apache-2.0
// RMS normalization: BLOCK threads share a row, a block holds ROWS rows. The sum of squares first, then
// the results; the second pass over the row hits the cache. All in fp32.
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
__device__ __forceinline__ float Normalize(const T* x, const T* gamma, T* y, bool live, int cols,
                                           float eps, float* partial) {
  using Packed = Pack<T, N>;
  const Packed* packed = reinterpret_cast<const Packed*>(x);
  const int packs = live ? cols / N : 0;
  float squares = 0;
  for (int i = threadIdx.x; i < packs; i += BLOCK) {
    const Packed pack = packed[i];
#pragma unroll
    for (int k = 0; k < N; ++k) squares += ToFloat(pack.values[k]) * ToFloat(pack.values[k]);
  }
  const float scale = 1.0f / sqrtf(RowSum(squares, partial) / cols + eps);
  for (int i = threadIdx.x; i < packs; i += BLOCK) {
    const Packed pack = packed[i], g = reinterpret_cast<const Packed*>(gamma)[i];
    Packed out;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      out.values[k] = FromFloat<T>(ToFloat(pack.values[k]) * scale * ToFloat(g.values[k]));
    }
    reinterpret_cast<Packed*>(y)[i] = out;
  }
  return scale;
}

template <typename T>
__global__ void __launch_bounds__(BLOCK* ROWS)
    rmsnorm_fwd(const T* x, const T* gamma, T* y, float* rstd, int rows, int cols, float eps) {
  __shared__ float partial[ROWS][BLOCK / 32 + 1];
  const int row = blockIdx.x * ROWS + threadIdx.y;
  const bool live = row < rows;  // Threads without a row still meet the others at the barriers.
  const long long start = live ? static_cast<long long>(row) * cols : 0;
  const int bytes = sizeof(T) * VEC;
  const bool vector = cols % VEC == 0 && Aligned(x, bytes) && Aligned(y, bytes) && Aligned(gamma, bytes);
  float* sums = partial[threadIdx.y];
  const float scale = vector ? Normalize<T, VEC>(x + start, gamma, y + start, live, cols, eps, sums)
                             : Normalize<T, 1>(x + start, gamma, y + start, live, cols, eps, sums);
  if (live && threadIdx.x == 0) rstd[row] = scale;
}
