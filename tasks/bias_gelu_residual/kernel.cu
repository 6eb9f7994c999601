// SPDX-License-Identifier: Apache-2.0
// Bias, GELU (the form with erf), dropout and residual in one pass: y = residual + keep * scale *
// gelu(x + bias). A thread takes ITEMS packs of VEC elements, a block's width apart.
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

// Pack number i: one access, or one for each element.
template <int N, bool kWide, typename T>
__device__ __forceinline__ Pack<T, N> Load(const T* from, long long i) {
  if (kWide) return reinterpret_cast<const Pack<T, N>*>(from)[i];
  Pack<T, N> pack;
#pragma unroll
  for (int k = 0; k < N; ++k) pack.values[k] = from[i * N + k];
  return pack;
}

template <int N, bool kWide, typename T>
__device__ __forceinline__ void Store(T* to, long long i, const Pack<T, N>& pack) {
  if (kWide) {
    reinterpret_cast<Pack<T, N>*>(to)[i] = pack;
    return;
  }
#pragma unroll
  for (int k = 0; k < N; ++k) to[i * N + k] = pack.values[k];
}

__device__ __forceinline__ float Gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }

template <int N, bool kWide, typename T>
__device__ __forceinline__ void Chain(const T* x, const T* bias, const unsigned char* keep,
                                      const T* residual, T* y, long long count, int cols, float scale) {
  const long long packs = count / N;
#pragma unroll
  for (int turn = 0; turn < ITEMS; ++turn) {
    const long long i = (static_cast<long long>(blockIdx.x) * ITEMS + turn) * BLOCK + threadIdx.x;
    if (i >= packs) return;
    const Pack<T, N> v = Load<N, kWide>(x, i), r = Load<N, kWide>(residual, i),
                     b = Load<N, kWide>(bias, i % (cols / N));
    const Pack<unsigned char, N> kept = Load<N, kWide>(keep, i);
    Pack<T, N> out;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float active = Gelu(ToFloat(v.values[k]) + ToFloat(b.values[k]));
      const float dropped = kept.values[k] != 0 ? active * scale : 0.0f;
      out.values[k] = FromFloat<T>(ToFloat(r.values[k]) + dropped);
    }
    Store<N, kWide>(y, i, out);
  }
}

// Packs hold VEC elements where a row is a whole number of them, else one: the grid counts likewise.
template <typename T>
__global__ void __launch_bounds__(BLOCK)
    bias_gelu_residual(const T* x, const T* bias, const unsigned char* keep, const T* residual, T* y,
                       int rows, int cols, float scale) {
  const long long count = static_cast<long long>(rows) * cols;
  const int bytes = sizeof(T) * VEC;
  if (cols % VEC != 0) {
    Chain<1, true>(x, bias, keep, residual, y, count, cols, scale);
  } else if (Aligned(x, bytes) && Aligned(bias, bytes) && Aligned(keep, VEC) &&
             Aligned(residual, bytes) && Aligned(y, bytes)) {
    Chain<VEC, true>(x, bias, keep, residual, y, count, cols, scale);
  } else {
    Chain<VEC, false>(x, bias, keep, residual, y, count, cols, scale);
  }
}
