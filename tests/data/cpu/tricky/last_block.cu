// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
// correct "last block" pattern: fence + atomic
__device__ unsigned int done_blocks = 0;
extern "C" __global__ void last_block(const float* x, float* part, float* out, int n) {
  __shared__ float s[128];
  __shared__ bool last;
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 128 + t];
  __syncthreads();
  for (int k = 64; k; k >>= 1) {
    if (t < k) s[t] += s[t + k];
    __syncthreads();
  }
  if (t == 0) {
    part[blockIdx.x] = s[0];
    __threadfence();
    last = atomicAdd(&done_blocks, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && t == 0) {
    float v = 0;
    for (int b = 0; b < (int)gridDim.x; ++b) v += part[b];
    out[0] = v;
  }
}
