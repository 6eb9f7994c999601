// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void divide_by_zero(const float* x, float* y, int n) {
  y[threadIdx.x] = x[threadIdx.x % (n - 4)];  // BUG: n is 4.
}
