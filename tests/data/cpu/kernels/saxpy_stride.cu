// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>
extern "C" __global__ void saxpy_stride(float a, const float* x, float* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = fmaf(a, x[i], y[i]);
}
