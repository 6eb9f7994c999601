// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void warp32_shfl(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
  for (int o = 16; o; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);  // BUG: 32 lanes.
  v = __shfl_sync(0xffffffff, v, 0);
  y[i] = v;
}
