// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void memcpy_oob(const float* x, float* y, int n) {
  int t = threadIdx.x;
  memcpy(y + t * 4, x + t * 4, n * sizeof(float));  // BUG: n is 5.
}
