// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern __shared__ float smem[];
extern "C" __global__ void softmax(const float* x, float* y, int D) {
  const float* xr = x + (size_t)blockIdx.x * D;
  float* yr = y + (size_t)blockIdx.x * D;
  int t = threadIdx.x;
  float m = -INFINITY;
  for (int i = t; i < D; i += blockDim.x) m = fmaxf(m, xr[i]);
  smem[t] = m;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (t < s) smem[t] = fmaxf(smem[t], smem[t + s]);
    __syncthreads();
  }
  m = smem[0];
  __syncthreads();
  float sum = 0.f;
  for (int i = t; i < D; i += blockDim.x) sum += __expf(xr[i] - m);
  smem[t] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (t < s) smem[t] += smem[t + s];
    __syncthreads();
  }
  float inv = 1.f / smem[0];
  for (int i = t; i < D; i += blockDim.x) yr[i] = __expf(xr[i] - m) * inv;
}
