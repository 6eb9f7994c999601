// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void oob_dynamic(const float* x, float* y, int n) {
  extern __shared__ float s[];
  int t = threadIdx.x;
  s[t + 1] = x[t];  // BUG: room for blockDim.x floats only.
  __syncthreads();
  y[t] = s[t];
}
