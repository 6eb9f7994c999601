// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
struct P {
  float s;
  int k[3];
};
__constant__ float coef[4] = {1.f, 0.5f, 0.25f, 0.125f};
__device__ void fill(float* a, float v) {
  for (int k = 0; k < 4; ++k) a[k] = v * coef[k];
}
template <class F>
__device__ float apply(const float* a, F f) {
  float r = 0;
  for (int k = 0; k < 4; ++k) r += f(a[k]);
  return r;
}
extern "C" __global__ void localptr(const float* x, float* y, P p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a[4];
  fill(a, x[i]);
  y[i] = apply(a, [=](float v) { return v * p.s + p.k[1]; });
}
