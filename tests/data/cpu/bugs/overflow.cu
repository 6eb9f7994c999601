// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void overflow(const float* x, float* y, int n) {
  y[threadIdx.x] = (float)(n * n);  // BUG: n is 100000.
}
