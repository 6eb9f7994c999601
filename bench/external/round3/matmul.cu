// SPDX-License-Identifier: Apache-2.0
// C = A B. fp32: SLICES groups of threads of a block share BM x BN results and take every SLICES-th tile
// of depth BK, so that few blocks still fill a multiprocessor; their sums meet in shared memory in a fixed
// order. fp16: warps of WM x WN results on the matrix units. Both are fed by rings of shared tiles that
// fill asynchronously.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#ifndef FETTLE_TARGET_CPU
#include <cuda_pipeline.h>
#include <mma.h>
#endif

struct alignas(16) Words {
  float at[4];
};

struct alignas(16) Halves {
  __half at[8];
};

__device__ __forceinline__ bool Aligned(const void* pointer) {
  return reinterpret_cast<unsigned long long>(pointer) % 16 == 0;
}

#ifdef FETTLE_TARGET_CPU
__device__ __forceinline__ void Commit() {}
template <int Pending> __device__ __forceinline__ void WaitFor() {}
#else
__device__ __forceinline__ void Commit() { __pipeline_commit(); }
template <int Pending> __device__ __forceinline__ void WaitFor() { __pipeline_wait_prior(Pending); }
#endif

// Rows x Cols elements at (row0, col0) into shared memory by Threads threads, zero outside of the matrix.
template <int Rows, int Cols, int Pitch, int Threads, typename T>
__device__ __forceinline__ void FillTile(T* tile, const T* matrix, int tid, int row0, int col0, int rows,
                                         int cols, bool wide) {
  constexpr int kWide = 16 / sizeof(T), kPacks = Cols / kWide, kTurns = Rows * kPacks / Threads;
  static_assert(kTurns * Threads == Rows * kPacks, "whole turns");
  const int pack = tid % kPacks * kWide, first = tid / kPacks;
  if (Threads % kPacks == 0 && wide) {
    // A thread stays in its column: only rows change from turn to turn.
    const bool in_cols = col0 + pack < cols;
    const T* from = matrix + static_cast<long long>(row0 + first) * cols + col0 + pack;
    T* to = tile + first * Pitch + pack;
    const long long step = static_cast<long long>(Threads / kPacks) * cols;
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn, from += step, to += Threads / kPacks * Pitch) {
      const bool inside = in_cols && row0 + first + turn * (Threads / kPacks) < rows;
#ifdef FETTLE_TARGET_CPU
      for (int i = 0; i < kWide; ++i) to[i] = inside ? from[i] : T(0.0f);
#else
      // Outside nothing is read: sixteen zero bytes are written instead.
      __pipeline_memcpy_async(to, inside ? from : matrix, 16, inside ? 0 : 16);
#endif
    }
    return;
  }
#pragma unroll 1
  for (int at = tid; at < Rows * Cols; at += Threads) {
    const int row = at / Cols, col = at % Cols;
    const bool inside = row0 + row < rows && col0 + col < cols;
    tile[row * Pitch + col] =
        inside ? matrix[static_cast<long long>(row0 + row) * cols + col0 + col] : T(0.0f);
  }
}

// Enumerators, because run-time compilation makes variables of the module of constants at this level.
enum : int {
  kGroup = (BM / TM) * (BN / TN),
  kThreads = kGroup * SLICES,
  kPitchA = BK + 4,
  kTileA = BM * kPitchA,
  kTile = kTileA + BK * BN,
};

extern "C" __global__ void __launch_bounds__(kThreads)
    matmul_f32(const float* a, const float* b, float* c, int m, int n, int k) {
  extern __shared__ Words shared_words[];
  float* ring = reinterpret_cast<float*>(shared_words);
  const int slice = threadIdx.x / kGroup, tid = threadIdx.x % kGroup;
  const int tx = tid % (BN / TN), ty = tid / (BN / TN);
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const bool wide_a = k % 4 == 0 && Aligned(a), wide_b = n % 4 == 0 && Aligned(b);
  const int steps = (k + BK * SLICES - 1) / (BK * SLICES);
  float sums[TM][TN] = {};

  auto fill = [&](int step) {
    float* tile = ring + (step % FSTAGES * SLICES + slice) * kTile;
    const int depth0 = (step * SLICES + slice) * BK;
    FillTile<BM, BK, kPitchA, kGroup>(tile, a, tid, row0, depth0, m, k, wide_a);
    FillTile<BK, BN, BN, kGroup>(tile + kTileA, b, tid, depth0, col0, k, n, wide_b);
  };

#pragma unroll
  for (int step = 0; step < FSTAGES - 1; ++step) {
    if (step < steps) fill(step);
    Commit();
  }
  for (int step = 0; step < steps; ++step) {
    WaitFor<FSTAGES - 2>();
    __syncthreads();  // The tile is there for all, and nobody reads the one that is filled now.
    if (step + FSTAGES - 1 < steps) fill(step + FSTAGES - 1);
    Commit();
    const float* tile = ring + (step % FSTAGES * SLICES + slice) * kTile;
#pragma unroll
    for (int depth = 0; depth < BK; depth += 4) {
      Words left[TM];
#pragma unroll
      for (int i = 0; i < TM; ++i) {
        left[i] = *reinterpret_cast<const Words*>(tile + (i * (BM / TM) + ty) * kPitchA + depth);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float right[TN];
#pragma unroll
        for (int g = 0; g < TN / 4; ++g) {
          const Words words = *reinterpret_cast<const Words*>(tile + kTileA + (depth + e) * BN +
                                                              g * (BN / (TN / 4)) + tx * 4);
#pragma unroll
          for (int j = 0; j < 4; ++j) right[g * 4 + j] = words.at[j];
        }
#pragma unroll
        for (int i = 0; i < TM; ++i) {
#pragma unroll
          for (int j = 0; j < TN; ++j) sums[i][j] += left[i].at[e] * right[j];
        }
      }
    }
  }
  if (SLICES > 1) {
    __syncthreads();  // The last tiles have been read.
    if (slice > 0) {
      float* to = ring + (slice - 1) * BM * BN + tid;
#pragma unroll
      for (int i = 0; i < TM * TN; ++i) to[i * kGroup] = sums[i / TN][i % TN];
    }
    __syncthreads();
    if (slice > 0) return;
#pragma unroll
    for (int other = 0; other < SLICES - 1; ++other) {
      const float* from = ring + other * BM * BN + tid;
#pragma unroll
      for (int i = 0; i < TM * TN; ++i) sums[i / TN][i % TN] += from[i * kGroup];
    }
  }

  const bool wide_c = n % 4 == 0 && Aligned(c);
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const int row = row0 + i * (BM / TM) + ty;
    if (row >= m) continue;
#pragma unroll
    for (int g = 0; g < TN / 4; ++g) {
      const int col = col0 + g * (BN / (TN / 4)) + tx * 4;
      float* to = c + static_cast<long long>(row) * n + col;
      if (wide_c) {
        if (col < n) {
          *reinterpret_cast<Words*>(to) =
              Words{{sums[i][g * 4], sums[i][g * 4 + 1], sums[i][g * 4 + 2], sums[i][g * 4 + 3]}};
        }
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (col + j < n) to[j] = sums[i][g * 4 + j];
        }
      }
    }
  }
}

enum : int {
  kWarpsX = HN / WN,
  kWarpsY = HM / WM,
  kThreadsHalf = kWarpsX * kWarpsY * 32,
  kPitchHalfA = HK + 8,
  kPitchHalfB = HN + 8,
  kTileHalfA = HM * kPitchHalfA,
  kTileHalf = kTileHalfA + HK * kPitchHalfB,
};

__device__ __forceinline__ void FillStage(__half* tile, const __half* a, const __half* b, int row0,
                                          int col0, int depth0, int m, int n, int k, bool wide_a,
                                          bool wide_b) {
  FillTile<HM, HK, kPitchHalfA, kThreadsHalf>(tile, a, threadIdx.x, row0, depth0, m, k, wide_a);
  FillTile<HK, HN, kPitchHalfB, kThreadsHalf>(tile + kTileHalfA, b, threadIdx.x, depth0, col0, k, n,
                                              wide_b);
}

extern "C" __global__ void __launch_bounds__(kThreadsHalf)
    matmul_f16(const __half* a, const __half* b, __half* c, int m, int n, int k) {
  extern __shared__ Words shared_words[];
  __half* ring = reinterpret_cast<__half*>(shared_words);
  const int row0 = blockIdx.y * HM, col0 = blockIdx.x * HN;
  const bool wide_a = k % 8 == 0 && Aligned(a), wide_b = n % 8 == 0 && Aligned(b);
  const int steps = (k + HK - 1) / HK;
#ifdef FETTLE_TARGET_CPU
  // No matrix units: a column and every so many rows for each thread.
  constexpr int kRows = HM * HN / kThreadsHalf;
  const int mine = threadIdx.x % HN, first = threadIdx.x / HN;
  float sums[kRows] = {};
  for (int step = 0; step < steps; ++step) {
    FillStage(ring, a, b, row0, col0, step * HK, m, n, k, wide_a, wide_b);
    __syncthreads();
    for (int depth = 0; depth < HK; ++depth) {
      const float right = __half2float(ring[kTileHalfA + depth * kPitchHalfB + mine]);
      for (int i = 0; i < kRows; ++i) {
        sums[i] += __half2float(ring[(first + i * (kThreadsHalf / HN)) * kPitchHalfA + depth]) * right;
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kRows; ++i) {
    const int row = row0 + first + i * (kThreadsHalf / HN), col = col0 + mine;
    if (row < m && col < n) c[static_cast<long long>(row) * n + col] = __float2half(sums[i]);
  }
#else
  using namespace nvcuda;
  constexpr int kDown = WM / 16, kAcross = WN / 16;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_row = warp / kWarpsX * WM, warp_col = warp % kWarpsX * WN;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[kDown][kAcross];
#pragma unroll
  for (int i = 0; i < kDown; ++i) {
#pragma unroll
    for (int j = 0; j < kAcross; ++j) wmma::fill_fragment(sums[i][j], 0.0f);
  }
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    if (stage < steps) {
      FillStage(ring + stage * kTileHalf, a, b, row0, col0, stage * HK, m, n, k, wide_a, wide_b);
    }
    Commit();
  }
  for (int step = 0; step < steps; ++step) {
    WaitFor<STAGES - 2>();
    __syncthreads();  // The tile is there for all, and nobody reads the one that is filled now.
    const int ahead = step + STAGES - 1;
    if (ahead < steps) {
      FillStage(ring + ahead % STAGES * kTileHalf, a, b, row0, col0, ahead * HK, m, n, k, wide_a, wide_b);
    }
    Commit();
    const __half* tile = ring + step % STAGES * kTileHalf;
#pragma unroll
    for (int depth = 0; depth < HK; depth += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left[kDown];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> right[kAcross];
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
        wmma::load_matrix_sync(left[i], tile + (warp_row + i * 16) * kPitchHalfA + depth, kPitchHalfA);
      }
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        wmma::load_matrix_sync(right[j], tile + kTileHalfA + depth * kPitchHalfB + warp_col + j * 16,
                               kPitchHalfB);
      }
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
#pragma unroll
        for (int j = 0; j < kAcross; ++j) wmma::mma_sync(sums[i][j], left[i], right[j], sums[i][j]);
      }
    }
  }
  // Results leave through shared memory, 16 x 16 at a time, where the ring was.
  WaitFor<0>();
  __syncthreads();
  float(*patch)[20] = reinterpret_cast<float(*)[20]>(shared_words) + warp * 16;
  const bool wide_c = n % 8 == 0 && Aligned(c);
#pragma unroll
  for (int i = 0; i < kDown; ++i) {
#pragma unroll
    for (int j = 0; j < kAcross; ++j) {
      wmma::store_matrix_sync(&patch[0][0], sums[i][j], 20, wmma::mem_row_major);
      __syncwarp();
      const int row = row0 + warp_row + i * 16 + lane / 2;
      const int col = col0 + warp_col + j * 16 + lane % 2 * 8;
      Halves out;
#pragma unroll
      for (int e = 0; e < 8; ++e) out.at[e] = __float2half(patch[lane / 2][lane % 2 * 8 + e]);
      if (row < m) {
        __half* to = c + static_cast<long long>(row) * n + col;
        if (wide_c) {
          if (col < n) *reinterpret_cast<Halves*>(to) = out;
        } else {
#pragma unroll
          for (int e = 0; e < 8; ++e) {
            if (col + e < n) to[e] = out.at[e];
          }
        }
      }
      __syncwarp();
    }
  }
#endif
}
