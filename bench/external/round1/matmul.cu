// SPDX-License-Identifier: Apache-2.0
// C = A B. fp32: a block computes BM x BN results from two shared buffers of depth BK; while one is
// multiplied, the next tile travels to registers. Each thread holds TM x TN results in groups of four,
// so that fragments are read four words at a time. fp16: warps of 32 x 32 results on the matrix units,
// fed by a ring of STAGES shared tiles that fill asynchronously.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#ifndef FETTLE_TARGET_CPU
#include <cuda_pipeline.h>
#include <mma.h>
#endif

struct alignas(16) Words {
  float at[4];
};

// Four neighbours of a row, zero outside of the matrix.
__device__ __forceinline__ Words Load4(const float* matrix, int row, int col, int rows, int cols,
                                       bool wide) {
  Words words = {{0, 0, 0, 0}};
  if (row < rows) {
    const float* from = matrix + static_cast<long long>(row) * cols + col;
    if (wide) {
      if (col < cols) words = *reinterpret_cast<const Words*>(from);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (col + i < cols) words.at[i] = from[i];
      }
    }
  }
  return words;
}

__device__ __forceinline__ bool Aligned(const void* pointer) {
  return reinterpret_cast<unsigned long long>(pointer) % 16 == 0;
}

constexpr int kThreads = (BM / TM) * (BN / TN);
constexpr int kLoadsA = BM * BK / 4 / kThreads;
constexpr int kLoadsB = BK * BN / 4 / kThreads;
constexpr int kPitchA = BM + 4;

extern "C" __global__ void __launch_bounds__(kThreads)
    matmul_f32(const float* a, const float* b, float* c, int m, int n, int k) {
  alignas(16) __shared__ float tile_a[2][BK][kPitchA];
  alignas(16) __shared__ float tile_b[2][BK][BN];
  const int tid = threadIdx.x;
  const int tx = tid % (BN / TN), ty = tid / (BN / TN);
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const bool wide_a = k % 4 == 0 && Aligned(a), wide_b = n % 4 == 0 && Aligned(b);
  Words next_a[kLoadsA], next_b[kLoadsB];
  float sums[TM][TN] = {};

  auto fetch = [&](int depth0) {
#pragma unroll
    for (int i = 0; i < kLoadsA; ++i) {
      const int at = tid + i * kThreads;
      next_a[i] = Load4(a, row0 + at / (BK / 4), depth0 + at % (BK / 4) * 4, m, k, wide_a);
    }
#pragma unroll
    for (int i = 0; i < kLoadsB; ++i) {
      const int at = tid + i * kThreads;
      next_b[i] = Load4(b, depth0 + at / (BN / 4), col0 + at % (BN / 4) * 4, k, n, wide_b);
    }
  };
  auto keep = [&](int buffer) {
#pragma unroll
    for (int i = 0; i < kLoadsA; ++i) {
      const int at = tid + i * kThreads;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        tile_a[buffer][at % (BK / 4) * 4 + j][at / (BK / 4)] = next_a[i].at[j];
      }
    }
#pragma unroll
    for (int i = 0; i < kLoadsB; ++i) {
      const int at = tid + i * kThreads;
      *reinterpret_cast<Words*>(&tile_b[buffer][at / (BN / 4)][at % (BN / 4) * 4]) = next_b[i];
    }
  };

  fetch(0);
  keep(0);
  __syncthreads();
  int buffer = 0;
  for (int depth0 = 0; depth0 < k; depth0 += BK) {
    const bool more = depth0 + BK < k;
    if (more) fetch(depth0 + BK);
#pragma unroll
    for (int depth = 0; depth < BK; ++depth) {
      float left[TM], right[TN];
#pragma unroll
      for (int g = 0; g < TM / 4; ++g) {
        const Words words = *reinterpret_cast<const Words*>(
            &tile_a[buffer][depth][g * (BM / (TM / 4)) + ty * 4]);
#pragma unroll
        for (int i = 0; i < 4; ++i) left[g * 4 + i] = words.at[i];
      }
#pragma unroll
      for (int g = 0; g < TN / 4; ++g) {
        const Words words = *reinterpret_cast<const Words*>(
            &tile_b[buffer][depth][g * (BN / (TN / 4)) + tx * 4]);
#pragma unroll
        for (int j = 0; j < 4; ++j) right[g * 4 + j] = words.at[j];
      }
#pragma unroll
      for (int i = 0; i < TM; ++i) {
#pragma unroll
        for (int j = 0; j < TN; ++j) sums[i][j] += left[i] * right[j];
      }
    }
    if (more) keep(buffer ^ 1);
    buffer ^= 1;
    __syncthreads();
  }

  const bool wide_c = n % 4 == 0 && Aligned(c);
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    const int row = row0 + i / 4 * (BM / (TM / 4)) + ty * 4 + i % 4;
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

struct alignas(16) Halves {
  __half at[8];
};

constexpr int kWarpsX = HN / 32, kWarpsY = HM / 32;
constexpr int kThreadsHalf = kWarpsX * kWarpsY * 32;
constexpr int kPitchHalfA = HK + 8, kPitchHalfB = HN + 8;
constexpr int kTileA = HM * kPitchHalfA, kTile = kTileA + HK * kPitchHalfB;

// Rows x Cols elements at (row0, col0) into shared memory, zero outside of the matrix.
template <int Rows, int Cols, int Pitch>
__device__ __forceinline__ void FillTile(__half* tile, const __half* matrix, int row0, int col0,
                                         int rows, int cols, bool wide) {
  for (int at = threadIdx.x; at < Rows * Cols / 8; at += kThreadsHalf) {
    const int r = at / (Cols / 8), col = at % (Cols / 8) * 8;
    __half* to = tile + r * Pitch + col;
    const __half* from = matrix + static_cast<long long>(row0 + r) * cols + col0 + col;
    const bool inside = row0 + r < rows && col0 + col < cols;
#ifndef FETTLE_TARGET_CPU
    if (wide) {
      // Outside nothing is read: sixteen zero bytes are written instead.
      __pipeline_memcpy_async(to, inside ? from : matrix, 16, inside ? 0 : 16);
      continue;
    }
#endif
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      to[i] = inside && col0 + col + i < cols ? from[i] : __float2half(0.0f);
    }
  }
}

__device__ __forceinline__ void FillStage(__half* tile, const __half* a, const __half* b, int row0,
                                          int col0, int depth0, int m, int n, int k, bool wide_a,
                                          bool wide_b) {
  FillTile<HM, HK, kPitchHalfA>(tile, a, row0, depth0, m, k, wide_a);
  FillTile<HK, HN, kPitchHalfB>(tile + kTileA, b, depth0, col0, k, n, wide_b);
}

extern "C" __global__ void __launch_bounds__(kThreadsHalf)
    matmul_f16(const __half* a, const __half* b, __half* c, int m, int n, int k) {
  extern __shared__ Words ring_words[];
  __half* ring = reinterpret_cast<__half*>(ring_words);
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
      const float right = __half2float(ring[kTileA + depth * kPitchHalfB + mine]);
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
  __shared__ float patches[kWarpsX * kWarpsY][16][20];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_row = warp / kWarpsX * 32, warp_col = warp % kWarpsX * 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2][2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(sums[i][j], 0.0f);
  }
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) {
    if (stage < steps) {
      FillStage(ring + stage * kTile, a, b, row0, col0, stage * HK, m, n, k, wide_a, wide_b);
    }
    __pipeline_commit();
  }
  for (int step = 0; step < steps; ++step) {
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();  // The tile is there for all, and nobody reads the one that is filled now.
    const int ahead = step + STAGES - 1;
    if (ahead < steps) {
      FillStage(ring + ahead % STAGES * kTile, a, b, row0, col0, ahead * HK, m, n, k, wide_a, wide_b);
    }
    __pipeline_commit();
    const __half* tile = ring + step % STAGES * kTile;
#pragma unroll
    for (int depth = 0; depth < HK; depth += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> right[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(left[i], tile + (warp_row + i * 16) * kPitchHalfA + depth, kPitchHalfA);
        wmma::load_matrix_sync(right[i], tile + kTileA + depth * kPitchHalfB + warp_col + i * 16,
                               kPitchHalfB);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 2; ++j) wmma::mma_sync(sums[i][j], left[i], right[j], sums[i][j]);
      }
    }
  }
  const bool wide_c = n % 8 == 0 && Aligned(c);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      wmma::store_matrix_sync(&patches[warp][0][0], sums[i][j], 20, wmma::mem_row_major);
      __syncwarp();
      const int row = row0 + warp_row + i * 16 + lane / 2;
      const int col = col0 + warp_col + j * 16 + lane % 2 * 8;
      Halves out;
#pragma unroll
      for (int e = 0; e < 8; ++e) out.at[e] = __float2half(patches[warp][lane / 2][lane % 2 * 8 + e]);
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
