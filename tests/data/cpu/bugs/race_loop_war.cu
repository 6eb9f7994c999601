// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void race_loop_war(const float* A, const float* B, float* C, int M, int N,
                                         int K) {
  __shared__ float As[16][16], Bs[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float acc = 0.f;
  for (int t = 0; t < K / 16; ++t) {
    As[threadIdx.y][threadIdx.x] = A[row * K + t * 16 + threadIdx.x];  // BUG: still being read.
    Bs[threadIdx.y][threadIdx.x] = B[(t * 16 + threadIdx.y) * N + col];  // BUG: likewise.
    __syncthreads();
    for (int k = 0; k < 16; ++k) acc += As[threadIdx.y][k] * Bs[k][threadIdx.x];
  }
  C[row * N + col] = acc;
}
