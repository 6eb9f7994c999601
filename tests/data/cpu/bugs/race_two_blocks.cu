// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void race_two_blocks(const float* x, float* y, int n) {
  y[threadIdx.x] = x[blockIdx.x];  // BUG: every block writes the same elements.
}
