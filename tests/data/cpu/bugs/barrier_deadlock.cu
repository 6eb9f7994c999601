// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void barrier_deadlock(const float* x, float* y, int n) {
  int t = threadIdx.x;
  float v = x[t];
  if (t % 2) {
    __syncthreads();
  } else {
    v += __shfl_xor_sync(0xffffffffu, v, 1);  // BUG: the odd lanes wait elsewhere.
  }
  y[t] = v;
}
