// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void uninit_shared(const float* x, float* y, int n) {
  __shared__ float s[256];
  int t = threadIdx.x;
  if (t < n) s[t] = x[t];
  __syncthreads();
  float v = 0.f;
  for (int k = 0; k < 4; ++k) v += s[(t + k) & 255];  // BUG: n is 200.
  y[t] = v;
}
