// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void barrier_div(const float* x, float* y, int n) {
  __shared__ float s[256];
  int t = threadIdx.x;
  s[t] = x[t];
  if (t < 100) {
    __syncthreads();  // BUG: the other threads wait at another barrier.
    y[t] = s[255 - t];
  } else {
    s[t] += 1.f;
    __syncthreads();
    y[t] = s[t];
  }
}
