// SPDX-License-Identifier: Apache-2.0
// Pooled lookup in a batch of embedding tables: a warp has a bag. Its lanes form groups, as many as
// the width of a row leaves lanes for; each group adds up every so many of the bag's rows, up to
// three packs of a row a lane, with up to UNROLL packs in flight. At the end the groups' sums are
// added.
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

template <typename I>
struct Bag {
  const I* indices;
  const float* weights;  // Or null: all 1.
  int size, width;
  float scale;
};

// Groups of kLanes lanes, kPacks packs of N columns each; wider rows take several turns.
template <int kLanes, int kPacks, int N, typename T, typename I>
__device__ __forceinline__ void Pool(const T* table, const Bag<I>& bag, float* out) {
  using Packed = Words<N* static_cast<int>(sizeof(T)) / 4>;
  constexpr int kGroups = 32 / kLanes;
  constexpr int kRows = UNROLL / kPacks >= 4 ? 4 : UNROLL / kPacks >= 2 ? 2 : 1;
  const int in_warp = threadIdx.x % 32, lane = in_warp % kLanes, group = in_warp / kLanes;
#pragma unroll 1
  for (int turn = 0; turn < bag.width; turn += kLanes * kPacks * N) {
    const int col = turn + lane * N;
    // A lane beyond the row's end adds up some other column, which it does not write.
    int columns[kPacks];
    float sums[kPacks][N];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      columns[p] = col + p * kLanes * N < bag.width ? col + p * kLanes * N : 0;
#pragma unroll
      for (int k = 0; k < N; ++k) sums[p][k] = 0.0f;
    }
    const auto load = [&](Packed(&row)[kPacks], int index) {
      const T* from = table + static_cast<long long>(index) * bag.width;
#pragma unroll
      for (int p = 0; p < kPacks; ++p) row[p] = *reinterpret_cast<const Packed*>(from + columns[p]);
    };
    const auto add = [&](const Packed(&row)[kPacks], float factor) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
#pragma unroll
        for (int k = 0; k < N; ++k) sums[p][k] += factor * Value<T>(row[p].at, k);
      }
    };
    // Of the next 32 rows each lane fetches an index and a weight, ahead of its use.
    int next = 0;
    float next_weight = 1.0f;
    const auto fetch = [&](int at) {
      if (at >= bag.size) return;
      next = static_cast<int>(bag.indices[at]);
      if (bag.weights != nullptr) next_weight = bag.weights[at];
    };
    fetch(in_warp);
#pragma unroll 1
    for (int base = 0; base < bag.size; base += 32) {
      const int index = next, count = bag.size - base < 32 ? bag.size - base : 32;
      const float weight = next_weight;
      fetch(base + 32 + in_warp);
      const auto factor = [&](int at) { return __shfl_sync(0xffffffffu, weight, at); };
      int i = group;
#pragma unroll 1
      for (; i - group + kRows * kGroups <= count; i += kRows * kGroups) {
        Packed rows[kRows][kPacks];
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          load(rows[r], __shfl_sync(0xffffffffu, index, i + r * kGroups));
#pragma unroll
        for (int r = 0; r < kRows; ++r) add(rows[r], factor(i + r * kGroups));
      }
#pragma unroll 1
      for (; i - group < count; i += kGroups) {
        const int at = i < count ? i : 0, last = __shfl_sync(0xffffffffu, index, at);
        const float last_factor = factor(at);
        if (i >= count) continue;
        Packed row[kPacks];
        load(row, last);
        add(row, last_factor);
      }
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
__device__ __forceinline__ void PoolWidth(const T* table, const Bag<I>& bag, float* out) {
  const int packs = bag.width / N;
  if (packs <= 8) {
    Pool<8, 1, N>(table, bag, out);
  } else if (packs <= 16) {
    Pool<8, 2, N>(table, bag, out);
  } else if (packs <= 24) {
    Pool<8, 3, N>(table, bag, out);
  } else if (packs <= 32) {
    Pool<16, 2, N>(table, bag, out);
  } else if (packs <= 48) {
    Pool<16, 3, N>(table, bag, out);
  } else {
    Pool<32, 3, N>(table, bag, out);
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
  const long long start = offsets[at];
  Bag<I> bag = {indices + start, sample_weights == nullptr ? nullptr : sample_weights + start,
                static_cast<int>(offsets[at + 1] - start), column_offsets[table + 1] - first, 1.0f};
  if (mean != 0 && bag.size > 0) bag.scale = 1.0f / static_cast<float>(bag.size);
  const T* rows = weights + weights_offsets[table];
  float* result = out + static_cast<long long>(sample) * columns + first;
  const bool wide = bag.width % kWide == 0 && weights_offsets[table] % kWide == 0;
  if (kWide == 4 || wide) {
    PoolWidth<kWide>(rows, bag, result);
  } else {
    PoolWidth<4>(rows, bag, result);
  }
}
