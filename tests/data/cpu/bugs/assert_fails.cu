// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void assert_fails(const float* x, float* y, int n) {
  assert(n < 0);  // BUG: n is 1.
  y[threadIdx.x] = 0.f;
}
