// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
extern "C" __global__ void gelu_half(const __half2* x, __half2* y, int n2) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n2) return;
  float2 v = __half22float2(x[i]);
  float a = 0.5f * v.x * (1.f + tanhf(0.79788456f * (v.x + 0.044715f * v.x * v.x * v.x)));
  float b = 0.5f * v.y * (1.f + tanhf(0.79788456f * (v.y + 0.044715f * v.y * v.y * v.y)));
  y[i] = __floats2half2_rn(a, b);
}
