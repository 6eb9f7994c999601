// SPDX-License-Identifier: Apache-2.0
// Pooled lookup in a batch of embedding tables: a warp has a bag. Its lanes form groups, as many as the
// width of a row leaves lanes for; each group adds up every so many of the bag's rows, up to three packs
// of a row a lane, with UNROLL packs in flight. At the end the groups' sums are added.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// Held as words: halves in registers of their own take twice the room.
template <int N>
struct alignas(4 * N) Words {
  unsigned at[N];
};

template <typename T>
__device__ __forceinline__ float Value(const unsigned* words, int k) {
  if (sizeof(T) == 4) return __uint_as_float(words[k]);
  return __half2float(__ushort_as_half(static_cast<unsigned short>(words[k / 2] >> (k % 2 * 16))));
}

struct Bag {
  long long start, end;
  const float* weights;  // Of all bags, or null.
  float scale;
  int width;
};

// Groups of kLanes lanes, kPacks packs of N columns each; wider rows take several turns.
template <int kLanes, int kPacks, int N, typename T, typename I>
__device__ __forceinline__ void Pool(const T* table, const I* indices, const Bag& bag, float* out) {
  using Packed = Words<N * static_cast<int>(sizeof(T)) / 4>;
  constexpr int kGroups = 32 / kLanes;
  constexpr int kRows = UNROLL / kPacks > 1 ? UNROLL / kPacks : 1;
  const int lane = threadIdx.x % kLanes, group = threadIdx.x % 32 / kLanes;
#pragma unroll 1
  for (int turn = 0; turn < bag.width; turn += kLanes * kPacks * N) {
    const int col = turn + lane * N;
    float sums[kPacks][N];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int k = 0; k < N; ++k) sums[p][k] = 0.0f;
    }
    const auto load = [&](Packed(&row)[kPacks], long long i) {
      const T* from = table + static_cast<long long>(indices[i]) * bag.width + col;
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        const int at = p * kLanes * N;
        if (col + at < bag.width) row[p] = *reinterpret_cast<const Packed*>(from + at);
      }
    };
    const auto add = [&](const Packed(&row)[kPacks], long long i) {
      const float factor = bag.weights != nullptr ? bag.weights[i] : 1.0f;
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        if (col + p * kLanes * N >= bag.width) continue;
#pragma unroll
        for (int k = 0; k < N; ++k) sums[p][k] += factor * Value<T>(row[p].at, k);
      }
    };
    long long base = bag.start;
#pragma unroll 1
    for (; base + kRows * kGroups <= bag.end; base += kRows * kGroups) {
      Packed rows[kRows][kPacks];
#pragma unroll
      for (int r = 0; r < kRows; ++r) load(rows[r], base + r * kGroups + group);
#pragma unroll
      for (int r = 0; r < kRows; ++r) add(rows[r], base + r * kGroups + group);
    }
#pragma unroll 1
    for (; base < bag.end; base += kGroups) {
      if (base + group >= bag.end) continue;
      Packed row[kPacks];
      load(row, base + group);
      add(row, base + group);
    }
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int k = 0; k < N; ++k) {
#pragma unroll
        for (int offset = kLanes; offset < 32; offset *= 2)
          sums[p][k] += __shfl_xor_sync(0xffffffffu, sums[p][k], offset);
      }
      const int at = col + p * kLanes * N;
      if (p % kGroups != group || at >= bag.width) continue;
#pragma unroll
      for (int k = 0; k < N; k += 4) {
        const float4 four = make_float4(sums[p][k] * bag.scale, sums[p][k + 1] * bag.scale,
                                        sums[p][k + 2] * bag.scale, sums[p][k + 3] * bag.scale);
        __stcs(reinterpret_cast<float4*>(out + at + k), four);
      }
    }
  }
}

template <int N, typename T, typename I>
__device__ __forceinline__ void PoolWidth(const T* table, const I* indices, const Bag& bag, float* out) {
  const int packs = bag.width / N;
  if (packs <= 8) {
    Pool<8, 1, N>(table, indices, bag, out);
  } else if (packs <= 16) {
    Pool<8, 2, N>(table, indices, bag, out);
  } else if (packs <= 24) {
    Pool<8, 3, N>(table, indices, bag, out);
  } else if (packs <= 32) {
    Pool<16, 2, N>(table, indices, bag, out);
  } else if (packs <= 48) {
    Pool<16, 3, N>(table, indices, bag, out);
  } else {
    Pool<32, 3, N>(table, indices, bag, out);
  }
}

// Widths are multiples of 4.
template <typename T, typename I>
__global__ void __launch_bounds__(BLOCK, RESIDENT / BLOCK)
    tbe_groups(const T* weights, const long long* weights_offsets, const int* column_offsets,
               const I* indices, const I* offsets, const float* sample_weights, float* out,
               int tables, int batch, int columns, int mean) {
  constexpr int kWide = 16 / static_cast<int>(sizeof(T));
  const int at = blockIdx.x * (BLOCK / 32) + threadIdx.x / 32;
  if (at >= tables * batch) return;
  const int table = at / batch, sample = at - table * batch, first = column_offsets[table];
  Bag bag = {offsets[at], offsets[at + 1], sample_weights, 1.0f, column_offsets[table + 1] - first};
  if (mean != 0 && bag.end > bag.start) bag.scale = 1.0f / static_cast<float>(bag.end - bag.start);
  const T* rows = weights + weights_offsets[table];
  float* result = out + static_cast<long long>(sample) * columns + first;
  if (bag.width % kWide == 0 && weights_offsets[table] % kWide == 0) {
    PoolWidth<kWide>(rows, indices, bag, result);
  } else {
    PoolWidth<4>(rows, indices, bag, result);
  }
}
