// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
__device__ __forceinline__ float warpSum(float v) {
  for (int o = warpSize / 2; o > 0; o >>= 1) v += __shfl_down(v, o);
  return v;
}
extern "C" __global__ void reduce(const float* in, float* out, int n) {
  __shared__ float part[32];
  float v = 0.f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    v += in[i];
  int lane = threadIdx.x % warpSize, wid = threadIdx.x / warpSize;
  v = warpSum(v);
  if (lane == 0) part[wid] = v;
  __syncthreads();
  int nw = blockDim.x / warpSize;
  v = threadIdx.x < nw ? part[lane] : 0.f;
  if (wid == 0) v = warpSum(v);
  if (threadIdx.x == 0) atomicAdd(out, v);
}
