// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void oob_shared(const float* x, float* y, int n) {
  __shared__ float a[256];
  __shared__ float b[256];
  int t = threadIdx.x;
  a[t] = x[t];
  b[t] = 0.f;
  __syncthreads();
  y[t] = a[t + 1] + b[t];  // BUG: thread 255 reads a[256].
}
