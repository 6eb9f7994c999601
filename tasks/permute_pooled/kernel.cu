// SPDX-License-Identifier: Apache-2.0
// Joins the blocks that an all-to-all exchange delivers, [batch, widths[j]] from each rank j one after
// another, into rows [batch, total], or with `split` takes rows apart into such blocks. A thread moves
// ITEMS packs of VEC elements; it finds a pack's block by a search in the offsets of the columns.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T values[N]; };

// The last block that starts at or before `col`; blocks without columns are passed over.
__device__ __forceinline__ int FindBlock(const int* offsets, int ranks, int col) {
  int low = 0, high = ranks;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (offsets[middle] <= col) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

template <typename T, int N, bool kWide>
__device__ __forceinline__ void Move(const T* from, T* to, const int* offsets, int ranks, int batch,
                                     int total, int split) {
  using Packed = Pack<T, N>;
  const int packs_per_row = total / N;
  const long long packs = static_cast<long long>(batch) * packs_per_row;
#pragma unroll
  for (int turn = 0; turn < ITEMS; ++turn) {
    const long long i = (static_cast<long long>(blockIdx.x) * ITEMS + turn) * BLOCK + threadIdx.x;
    if (i >= packs) return;
    const int row = static_cast<int>(i / packs_per_row);
    const int col = static_cast<int>(i - static_cast<long long>(row) * packs_per_row) * N;
    const int block = FindBlock(offsets, ranks, col);
    const int start = offsets[block], width = offsets[block + 1] - start;
    const long long in_rows = i * N;
    const long long in_blocks = static_cast<long long>(start) * batch +
                                static_cast<long long>(row) * width + (col - start);
    const T* source = from + (split != 0 ? in_rows : in_blocks);
    T* target = to + (split != 0 ? in_blocks : in_rows);
    if (kWide) {
      *reinterpret_cast<Packed*>(target) = *reinterpret_cast<const Packed*>(source);
    } else {
#pragma unroll
      for (int k = 0; k < N; ++k) target[k] = source[k];
    }
  }
}

__device__ __forceinline__ bool Aligned(const void* pointer, int bytes) {
  return reinterpret_cast<unsigned long long>(pointer) % bytes == 0;
}

// `unit` divides every width. Packs hold VEC elements where VEC divides it, else one: the grid counts
// likewise.
template <typename T>
__global__ void __launch_bounds__(BLOCK)
    permute_pooled(const T* from, T* to, const int* offsets, int ranks, int batch, int total, int split,
                   int unit) {
  const int bytes = sizeof(T) * VEC;
  if (unit % VEC != 0) {
    Move<T, 1, true>(from, to, offsets, ranks, batch, total, split);
  } else if (Aligned(from, bytes) && Aligned(to, bytes)) {
    Move<T, VEC, true>(from, to, offsets, ranks, batch, total, split);
  } else {
    Move<T, VEC, false>(from, to, offsets, ranks, batch, total, split);
  }
}
