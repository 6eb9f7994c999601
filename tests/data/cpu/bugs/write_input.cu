// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void write_input(float* x, float* y, int n) {
  int t = threadIdx.x;
  y[t] = x[t];
  x[t] = 0.f;  // BUG: x is an input.
}
