// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void oob_local(const float* x, float* y, int n) {
  float acc[4] = {0, 0, 0, 0};
  int t = threadIdx.x;
  for (int k = 0; k <= n; ++k) acc[k] += x[t];  // BUG: n is 4.
  y[t] = acc[0] + acc[3];
}
