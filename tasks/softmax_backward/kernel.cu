// SPDX-License-Identifier: Apache-2.0
// Gradient of softmax: BLOCK threads share a row, a block holds ROWS rows. First the row's sum of
// y * dy, then the results; the second pass over the row hits the cache. All in fp32.
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
__device__ __forceinline__ void Gradient(const T* y, const T* dy, T* dx, bool live, int cols,
                                         float* partial) {
  using Packed = Pack<T, N>;
  const int packs = live ? cols / N : 0;
  float sum = 0;
  for (int i = threadIdx.x; i < packs; i += BLOCK) {
    const Packed p = reinterpret_cast<const Packed*>(y)[i], d = reinterpret_cast<const Packed*>(dy)[i];
#pragma unroll
    for (int k = 0; k < N; ++k) sum += ToFloat(p.values[k]) * ToFloat(d.values[k]);
  }
  sum = RowSum(sum, partial);
  for (int i = threadIdx.x; i < packs; i += BLOCK) {
    const Packed p = reinterpret_cast<const Packed*>(y)[i], d = reinterpret_cast<const Packed*>(dy)[i];
    Packed out;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      out.values[k] = FromFloat<T>(ToFloat(p.values[k]) * (ToFloat(d.values[k]) - sum));
    }
    reinterpret_cast<Packed*>(dx)[i] = out;
  }
}

template <typename T>
__global__ void __launch_bounds__(BLOCK* ROWS)
    softmax_bwd(const T* y, const T* dy, T* dx, int rows, int cols) {
  __shared__ float partial[ROWS][BLOCK / 32 + 1];
  const int row = blockIdx.x * ROWS + threadIdx.y;
  const bool live = row < rows;  // Threads without a row still meet the others at the barriers.
  const long long start = live ? static_cast<long long>(row) * cols : 0;
  const int bytes = sizeof(T) * VEC;
  if (cols % VEC == 0 && Aligned(y, bytes) && Aligned(dy, bytes) && Aligned(dx, bytes)) {
    Gradient<T, VEC>(y + start, dy + start, dx + start, live, cols, partial[threadIdx.y]);
  } else {
    Gradient<T, 1>(y + start, dy + start, dx + start, live, cols, partial[threadIdx.y]);
  }
}
