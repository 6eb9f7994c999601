// SPDX-License-Identifier: Apache-2.0
// Layer normalization: BLOCK threads share a row, a block holds ROWS rows. Mean and variance are
// taken in two passes over the row (the second one hits the cache), in fp32.
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
__device__ __forceinline__ void Normalize(const T* x, const T* gamma, const T* beta, T* y, bool live,
                                          int cols, float eps, float* partial) {
  using Packed = Pack<T, N>;
  const Packed* packed = reinterpret_cast<const Packed*>(x);
  const int packs = live ? cols / N : 0;
  float sum = 0;
  for (int i = threadIdx.x; i < packs; i += BLOCK) {
    const Packed pack = packed[i];
#pragma unroll
    for (int k = 0; k < N; ++k) sum += ToFloat(pack.values[k]);
  }
  const float mean = RowSum(sum, partial) / cols;
  float squares = 0;
  for (int i = threadIdx.x; i < packs; i += BLOCK) {
    const Packed pack = packed[i];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float centred = ToFloat(pack.values[k]) - mean;
      squares += centred * centred;
    }
  }
  const float scale = 1.0f / sqrtf(RowSum(squares, partial) / cols + eps);
  for (int i = threadIdx.x; i < packs; i += BLOCK) {
    const Packed pack = packed[i], g = reinterpret_cast<const Packed*>(gamma)[i],
                 b = reinterpret_cast<const Packed*>(beta)[i];
    Packed out;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      out.values[k] = FromFloat<T>((ToFloat(pack.values[k]) - mean) * scale * ToFloat(g.values[k]) +
                                   ToFloat(b.values[k]));
    }
    reinterpret_cast<Packed*>(y)[i] = out;
  }
}

__device__ __forceinline__ bool Aligned(const void* pointer, int bytes) {
  return reinterpret_cast<unsigned long long>(pointer) % bytes == 0;
}

template <typename T>
__global__ void __launch_bounds__(BLOCK* ROWS)
    layernorm_fwd(const T* x, const T* gamma, const T* beta, T* y, int rows, int cols, float eps) {
  __shared__ float partial[ROWS][BLOCK / 32 + 1];
  const int row = blockIdx.x * ROWS + threadIdx.y;
  const bool live = row < rows;  // Threads without a row still meet the others at the barriers.
  const long long start = live ? static_cast<long long>(row) * cols : 0;
  const bool vector = cols % VEC == 0 && Aligned(x, sizeof(T) * VEC) && Aligned(y, sizeof(T) * VEC) &&
                      Aligned(gamma, sizeof(T) * VEC) && Aligned(beta, sizeof(T) * VEC);
  if (vector) {
    Normalize<T, VEC>(x + start, gamma, beta, y + start, live, cols, eps, partial[threadIdx.y]);
  } else {
    Normalize<T, 1>(x + start, gamma, beta, y + start, live, cols, eps, partial[threadIdx.y]);
  }
}
