// SPDX-License-Identifier: Apache-2.0
// LANES threads share a bag. Each violation is counted by an atomic of its own where the mode asks
// for it.
#include <cuda_runtime.h>

constexpr int kCountMode = 1;

__device__ __forceinline__ void Warn(long long* warning, int mode) {
  if (mode == kCountMode) atomicAdd(reinterpret_cast<unsigned long long*>(warning), 1ULL);
}

template <typename I>
__device__ __forceinline__ void CheckBag(long long bag, int lane, long long rows, I* indices,
                                         const I* offsets, long long* warning, int mode) {
  const long long end = offsets[bag + 1];
  for (long long i = offsets[bag] + lane; i < end; i += LANES) {
    const long long index = indices[i];
    if (index == -1) continue;  // A pruned row.
    if (index < 0 || index >= rows) {
      indices[i] = 0;
      Warn(warning, mode);
    }
  }
}

template <typename I>
__global__ void __launch_bounds__(BLOCK)
    bounds_check_indices(const long long* rows_per_table, I* indices, const I* offsets,
                         long long* warning, int tables, int batch, int mode) {
  const long long bags = static_cast<long long>(tables) * batch;
  const int lane = threadIdx.x % LANES;
  const long long group = static_cast<long long>(blockIdx.x) * (BLOCK / LANES) + threadIdx.x / LANES;
  for (int turn = 0; turn < BAGS; ++turn) {
    const long long bag = group * BAGS + turn;
    if (bag >= bags) return;
    CheckBag<I>(bag, lane, rows_per_table[bag / batch], indices, offsets, warning, mode);
  }
}
