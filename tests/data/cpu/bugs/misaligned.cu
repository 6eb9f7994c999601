// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void misaligned(const float* x, float* y, int n) {
  int t = threadIdx.x;
  float4 v = *reinterpret_cast<const float4*>(x + t + 1);  // BUG: 4-byte alignment.
  y[t] = v.x + v.w;
}
