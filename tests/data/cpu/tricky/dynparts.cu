// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void dynparts(const float* x, float* y, int n) {
  extern __shared__ __align__(16) unsigned char raw[];
  float* f = reinterpret_cast<float*>(raw);
  int* idx = reinterpret_cast<int*>(f + blockDim.x);
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  f[t] = x[i];
  idx[t] = (t * 7) % blockDim.x;
  __syncthreads();
  __shared__ float total;
  if (t == 0) {
    total = 0;
    for (int k = 0; k < (int)blockDim.x; ++k) total += f[idx[k]];
  }
  __syncthreads();
  y[i] = f[t] / total;
}
