// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>
extern "C" __global__ void syncwarp_reduce(const float* x, float* out, int n) {
  __shared__ volatile float s[256];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 256 + t];
  __syncthreads();
  for (int k = 128; k >= 32; k >>= 1) {
    if (t < k) s[t] += s[t + k];
    __syncthreads();
  }
  if (t < 32)
    for (int k = 16; k; k >>= 1) {
      float v = 0;
      if (t < k) v = s[t + k];
      __syncwarp();
      if (t < k) s[t] += v;
      __syncwarp();
    }
  if (t == 0) out[blockIdx.x] = s[0];
}
