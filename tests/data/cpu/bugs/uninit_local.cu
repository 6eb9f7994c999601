// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void uninit_local(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float acc[4];
  for (int k = 0; k < 3; ++k) acc[k] = x[i] * k;
  float s = 0.f;
  for (int k = 0; k < n; ++k) s += acc[k];  // BUG: n is 4 (its value is poison; no finding).
  y[i] = s;
}
