// SPDX-License-Identifier: Apache-2.0
// C = A B. A block computes BM x BN results through shared tiles of depth BK; each thread TM x TN of
// them, strided so that neighbouring threads read neighbouring words.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float ToFloat(float value) { return value; }
__device__ __forceinline__ float ToFloat(__half value) { return __half2float(value); }
__device__ __forceinline__ void Store(float* to, float value) { *to = value; }
__device__ __forceinline__ void Store(__half* to, float value) { *to = __float2half(value); }

constexpr int kThreadsX = BN / TN;
constexpr int kThreadsY = BM / TM;

template <typename T>
__global__ void __launch_bounds__(kThreadsX* kThreadsY)
    matmul(const T* a, const T* b, T* c, int m, int n, int k) {
  __shared__ float tile_a[BK][BM + PAD];
  __shared__ float tile_b[BK][BN + PAD];
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int tid = threadIdx.y * kThreadsX + threadIdx.x;
  float sums[TM][TN] = {};
  for (int depth0 = 0; depth0 < k; depth0 += BK) {
    for (int i = tid; i < BM * BK; i += kThreadsX * kThreadsY) {
      const int row = row0 + i / BK, depth = depth0 + i % BK;
      tile_a[i % BK][i / BK] =
          row < m && depth < k ? ToFloat(a[static_cast<long long>(row) * k + depth]) : 0.0f;
    }
    for (int i = tid; i < BK * BN; i += kThreadsX * kThreadsY) {
      const int depth = depth0 + i / BN, col = col0 + i % BN;
      tile_b[i / BN][i % BN] =
          depth < k && col < n ? ToFloat(b[static_cast<long long>(depth) * n + col]) : 0.0f;
    }
    __syncthreads();
#pragma unroll UNROLL
    for (int depth = 0; depth < BK; ++depth) {
      float left[TM], right[TN];
#pragma unroll
      for (int i = 0; i < TM; ++i) left[i] = tile_a[depth][threadIdx.y + i * kThreadsY];
#pragma unroll
      for (int j = 0; j < TN; ++j) right[j] = tile_b[depth][threadIdx.x + j * kThreadsX];
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] += left[i] * right[j];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const int row = row0 + threadIdx.y + i * kThreadsY;
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      const int col = col0 + threadIdx.x + j * kThreadsX;
      if (row < m && col < n) Store(c + static_cast<long long>(row) * n + col, sums[i][j]);
    }
  }
}
