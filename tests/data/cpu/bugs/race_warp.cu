// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void race_warp(const float* x, float* y, int n) {
  __shared__ float s[32];
  int t = threadIdx.x;
  s[t] = x[t];  // BUG: others have read it.
  if (t < 16) s[t] += s[t + 16];  // BUG: no __syncwarp in between.
  if (t == 0) y[0] = s[0];
}
