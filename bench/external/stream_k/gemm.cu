// SPDX-License-Identifier: Apache-2.0
// D = alpha A B + beta C by Stream-K (Osama et al., 2023, arXiv:2301.03598). All steps of depth BK of all
// tiles of BM x BN results form one line, which the blocks of the grid share out evenly, however many
// tiles there are. A tile that one block has whole is written at once. What blocks have of the others
// goes into `partial`, and a second launch adds it up in the order of the depths: the same bits each time.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float ToFloat(__half value) { return __half2float(value); }
__device__ __forceinline__ float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ void Put(__half* to, float value) { *to = __float2half(value); }
__device__ __forceinline__ void Put(__nv_bfloat16* to, float value) { *to = __float2bfloat16(value); }

#define THREADS_X (BN / TN)
#define THREADS_Y (BM / TM)
#define THREADS (THREADS_X * THREADS_Y)

// What block `block` of `blocks` has of the line of `steps` steps for each of the tiles.
struct Share {
  long long begin, end;
  int steps, tiles_n;
};

__device__ __forceinline__ Share ShareOf(int block, int blocks, int m, int n, int k) {
  Share share;
  share.steps = k > BK ? (k + BK - 1) / BK : 1;  // Without any depth there still are results.
  share.tiles_n = (n + BN - 1) / BN;
  const long long all = static_cast<long long>((m + BM - 1) / BM) * share.tiles_n * share.steps;
  share.begin = all * block / blocks;
  share.end = all * (block + 1) / blocks;
  return share;
}

template <typename T>
__device__ __forceinline__ void Write(const float (&sums)[TM][TN], const T* c, T* d, int row0, int col0,
                                      int m, int n, float alpha, float beta) {
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const int row = row0 + threadIdx.y + i * THREADS_Y;
#pragma unroll
    for (int j = 0; j < TN; ++j) {
      const int col = col0 + threadIdx.x + j * THREADS_X;
      if (row >= m || col >= n) continue;
      const long long at = static_cast<long long>(row) * n + col;
      float value = alpha * sums[i][j];
      if (beta != 0.0f) value += beta * ToFloat(c[at]);
      Put(d + at, value);
    }
  }
}

// This thread's sums in `partial`: slot 0 of a block holds the tile that another block began, slot 1 the
// one that it began itself and another ends.
__device__ __forceinline__ long long PartialAt(int block, int slot) {
  return (2LL * block + slot) * (BM * BN) + threadIdx.y * THREADS_X + threadIdx.x;
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    gemm_stream_k(const T* a, const T* b, const T* c, T* d, float* partial, int m, int n, int k, float alpha,
                  float beta) {
  __shared__ T left[BK][BM + PAD];
  __shared__ T right[BK][BN];
  const Share share = ShareOf(blockIdx.x, gridDim.x, m, n, k);
  const int tid = threadIdx.y * THREADS_X + threadIdx.x;
  for (long long at = share.begin; at < share.end;) {
    const long long tile = at / share.steps;
    const int first = static_cast<int>(at % share.steps);
    const long long rest = share.end - at;
    const int last = rest < share.steps - first ? first + static_cast<int>(rest) : share.steps;
    const int row0 = static_cast<int>(tile / share.tiles_n) * BM;
    const int col0 = static_cast<int>(tile % share.tiles_n) * BN;
    float sums[TM][TN] = {};
    for (int depth0 = first * BK; depth0 < last * BK; depth0 += BK) {
      for (int i = tid; i < BM * BK; i += THREADS) {
        const int row = row0 + i / BK, depth = depth0 + i % BK;
        if (row < m && depth < k) {
          left[i % BK][i / BK] = a[static_cast<long long>(row) * k + depth];
        } else {
          Put(&left[i % BK][i / BK], 0.0f);
        }
      }
      for (int i = tid; i < BK * BN; i += THREADS) {
        const int depth = depth0 + i / BN, col = col0 + i % BN;
        if (depth < k && col < n) {
          right[i / BN][i % BN] = b[static_cast<long long>(depth) * n + col];
        } else {
          Put(&right[i / BN][i % BN], 0.0f);
        }
      }
      __syncthreads();
#pragma unroll
      for (int depth = 0; depth < BK; ++depth) {
        float x[TM], y[TN];
#pragma unroll
        for (int i = 0; i < TM; ++i) x[i] = ToFloat(left[depth][threadIdx.y + i * THREADS_Y]);
#pragma unroll
        for (int j = 0; j < TN; ++j) y[j] = ToFloat(right[depth][threadIdx.x + j * THREADS_X]);
#pragma unroll
        for (int i = 0; i < TM; ++i) {
#pragma unroll
          for (int j = 0; j < TN; ++j) sums[i][j] += x[i] * y[j];
        }
      }
      __syncthreads();
    }
    if (last - first == share.steps) {
      Write(sums, c, d, row0, col0, m, n, alpha, beta);
    } else {
      float* to = partial + PartialAt(blockIdx.x, first == 0 ? 1 : 0);
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) to[(i * TN + j) * THREADS] = sums[i][j];
      }
    }
    at += last - first;
  }
}

// Each block ends the tile that it began and did not end, if there is one.
template <typename T>
__global__ void __launch_bounds__(THREADS) gemm_fixup(const T* c, T* d, const float* partial, int m, int n, int k,
                                                      float alpha, float beta) {
  const Share share = ShareOf(blockIdx.x, gridDim.x, m, n, k);
  const long long tile = share.end / share.steps, start = tile * share.steps;
  if (start == share.end || start < share.begin) return;
  float sums[TM][TN] = {};
  for (int block = blockIdx.x;; ++block) {
    const float* from = partial + PartialAt(block, block == static_cast<int>(blockIdx.x) ? 1 : 0);
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
      for (int j = 0; j < TN; ++j) sums[i][j] += from[(i * TN + j) * THREADS];
    }
    if (ShareOf(block, gridDim.x, m, n, k).end >= start + share.steps) break;
  }
  Write(sums, c, d, static_cast<int>(tile / share.tiles_n) * BM, static_cast<int>(tile % share.tiles_n) * BN, m,
        n, alpha, beta);
}
