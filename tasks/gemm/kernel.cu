// SPDX-License-Identifier: Apache-2.0
// D = alpha A B + beta C. A block computes BM x BN results through shared tiles of depth BK, each thread
// TM x TN of them in fp32. Tiles are read VEC elements at a time where the matrix is aligned for it. The
// blocks of GROUP neighbouring rows of tiles follow one another, so that they share tiles of B in cache.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float ToFloat(__half value) { return __half2float(value); }
__device__ __forceinline__ float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ void Put(__half* to, float value) { *to = __float2half(value); }
__device__ __forceinline__ void Put(__nv_bfloat16* to, float value) { *to = __float2bfloat16(value); }

template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T values[N]; };

constexpr int kThreadsX = BN / TN;
constexpr int kThreadsY = BM / TM;
constexpr int kThreads = kThreadsX * kThreadsY;

// Elements [col, col + N) of a row, zero outside of the matrix.
template <int N, typename T>
__device__ __forceinline__ Pack<T, N> Load(const T* matrix, int row, int col, int rows, int cols) {
  if (row < rows && col < cols) {
    return *reinterpret_cast<const Pack<T, N>*>(matrix + static_cast<long long>(row) * cols + col);
  }
  Pack<T, N> zeros;
#pragma unroll
  for (int i = 0; i < N; ++i) Put(&zeros.values[i], 0.0f);
  return zeros;
}

template <typename T>
struct Tiles {
  T a[BK][BM + PAD];
  T b[BK][BN];
};

template <int NA, int NB, typename T>
__device__ __forceinline__ void Fill(Tiles<T>& tiles, const T* a, const T* b, int row0, int col0,
                                     int depth0, int m, int n, int k) {
  const int tid = threadIdx.y * kThreadsX + threadIdx.x;
  for (int i = tid; i < BM * BK / NA; i += kThreads) {
    const int row = i / (BK / NA), depth = i % (BK / NA) * NA;
    const Pack<T, NA> pack = Load<NA>(a, row0 + row, depth0 + depth, m, k);
#pragma unroll
    for (int j = 0; j < NA; ++j) tiles.a[depth + j][row] = pack.values[j];
  }
  for (int i = tid; i < BK * BN / NB; i += kThreads) {
    const int depth = i / (BN / NB), col = i % (BN / NB) * NB;
    const Pack<T, NB> pack = Load<NB>(b, depth0 + depth, col0 + col, k, n);
#pragma unroll
    for (int j = 0; j < NB; ++j) tiles.b[depth][col + j] = pack.values[j];
  }
}

template <int NA, int NB, typename T>
__device__ __forceinline__ void Multiply(Tiles<T>& tiles, float (&sums)[TM][TN], const T* a, const T* b,
                                         int row0, int col0, int m, int n, int k) {
  for (int depth0 = 0; depth0 < k; depth0 += BK) {
    Fill<NA, NB>(tiles, a, b, row0, col0, depth0, m, n, k);
    __syncthreads();
#pragma unroll
    for (int depth = 0; depth < BK; ++depth) {
      float left[TM], right[TN];
#pragma unroll
      for (int i = 0; i < TM; ++i) left[i] = ToFloat(tiles.a[depth][threadIdx.y + i * kThreadsY]);
#pragma unroll
      for (int j = 0; j < TN; ++j) right[j] = ToFloat(tiles.b[depth][threadIdx.x + j * kThreadsX]);
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] += left[i] * right[j];
      }
    }
    __syncthreads();
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    gemm(const T* a, const T* b, const T* c, T* d, int m, int n, int k, float alpha, float beta) {
  __shared__ Tiles<T> tiles;
  const int tile_rows = (m + BM - 1) / BM, tile_cols = (n + BN - 1) / BN;
  const int band = blockIdx.x / (GROUP * tile_cols), place = blockIdx.x % (GROUP * tile_cols);
  const int height = tile_rows - band * GROUP < GROUP ? tile_rows - band * GROUP : GROUP;
  const int row0 = (band * GROUP + place % height) * BM, col0 = place / height * BN;
  float sums[TM][TN] = {};
  const bool wide_a = k % VEC == 0 && reinterpret_cast<unsigned long long>(a) % (sizeof(T) * VEC) == 0;
  const bool wide_b = n % VEC == 0 && reinterpret_cast<unsigned long long>(b) % (sizeof(T) * VEC) == 0;
  if (wide_a && wide_b) {
    Multiply<VEC, VEC>(tiles, sums, a, b, row0, col0, m, n, k);
  } else {
    Multiply<1, 1>(tiles, sums, a, b, row0, col0, m, n, k);
  }
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const int row = row0 + threadIdx.y + i * kThreadsY;
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      const int col = col0 + threadIdx.x + j * kThreadsX;
      if (row >= m || col >= n) continue;
      const long long at = static_cast<long long>(row) * n + col;
      float value = alpha * sums[i][j];
      if (beta != 0.0f) value += beta * ToFloat(c[at]);  // Without beta, c may hold anything.
      Put(d + at, value);
    }
  }
}
