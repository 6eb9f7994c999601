// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp16.h>
// RMSNorm, 8 halfs per 16-byte load
extern "C" __global__ void rms_vec(const __half* __restrict__ x, const __half* __restrict__ w,
                                   __half* __restrict__ y, int D, float eps) {
  const uint4* xr = reinterpret_cast<const uint4*>(x + (size_t)blockIdx.x * D);
  const uint4* wr = reinterpret_cast<const uint4*>(w);
  uint4* yr = reinterpret_cast<uint4*>(y + (size_t)blockIdx.x * D);
  __shared__ float part[32];
  float ss = 0.f;
  for (int i = threadIdx.x; i < D / 8; i += blockDim.x) {
    uint4 u = xr[i];
    const __half2* h = reinterpret_cast<const __half2*>(&u);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float2 f = __half22float2(h[k]);
      ss += f.x * f.x + f.y * f.y;
    }
  }
  for (int o = warpSize / 2; o; o >>= 1) ss += __shfl_xor(ss, o);
  if (threadIdx.x % warpSize == 0) part[threadIdx.x / warpSize] = ss;
  __syncthreads();
  ss = 0.f;
  for (int k = 0; k < (int)(blockDim.x + warpSize - 1) / warpSize; ++k) ss += part[k];
  float inv = rsqrtf(ss / D + eps);
  for (int i = threadIdx.x; i < D / 8; i += blockDim.x) {
    uint4 u = xr[i], g = wr[i];
    __half2* h = reinterpret_cast<__half2*>(&u);
    const __half2* gh = reinterpret_cast<const __half2*>(&g);
    for (int k = 0; k < 4; ++k) {
      float2 f = __half22float2(h[k]), q = __half22float2(gh[k]);
      h[k] = __floats2half2_rn(f.x * inv * q.x, f.y * inv * q.y);
    }
    yr[i] = u;
  }
}
