// SPDX-License-Identifier: Apache-2.0
// LANES threads share a bag. Each violation is counted by an atomic of its own where the mode asks
// for it. Bag boundaries are expected to be nondecreasing except for the last one.
#include <cuda_runtime.h>

constexpr int kCountMode = 1;

__device__ __forceinline__ void Warn(long long* warning, int mode) {
  if (mode == kCountMode) atomicAdd(reinterpret_cast<unsigned long long*>(warning), 1ULL);
}

template <typename I>
__device__ __forceinline__ void CheckBag(long long bag, int lane, long long rows, I* indices,
                                         I* offsets, long long* warning, long long bags,
                                         long long count, int mode) {
  long long start = offsets[bag], end = offsets[bag + 1];
  if (start < 0 || start > end || end > count) {
    start = start < 0 ? 0 : start > count ? count : start;
    end = end > count ? count : end;
    end = end < start ? start : end;
    if (lane == 0) {
      Warn(warning, mode);
      offsets[bag] = static_cast<I>(start);
      offsets[bag + 1] = static_cast<I>(end);
    }
  }
  for (long long i = start + lane; i < end; i += LANES) {
    const long long index = indices[i];
    if (index == -1) continue;  // A pruned row.
    if (index < 0 || index >= rows) {
      indices[i] = 0;
      Warn(warning, mode);
    }
  }
  if (bag == bags - 1 && lane == 0 && end != count) {
    Warn(warning, mode);
    offsets[bags] = static_cast<I>(count);
  }
}

template <typename I>
__global__ void __launch_bounds__(BLOCK)
    bounds_check_indices(const long long* rows_per_table, I* indices, I* offsets, long long* warning,
                         int tables, int batch, long long count, int mode) {
  const long long bags = static_cast<long long>(tables) * batch;
  const int lane = threadIdx.x % LANES;
  const long long group = static_cast<long long>(blockIdx.x) * (BLOCK / LANES) + threadIdx.x / LANES;
  for (int turn = 0; turn < BAGS; ++turn) {
    const long long bag = group * BAGS + turn;
    if (bag >= bags) return;
    CheckBag<I>(bag, lane, rows_per_table[bag / batch], indices, offsets, warning, bags, count, mode);
  }
}
