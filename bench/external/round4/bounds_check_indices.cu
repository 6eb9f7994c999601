// SPDX-License-Identifier: Apache-2.0
// Repairs indices where they lie, 16 bytes at a time, however they are cut into bags: only where a
// table ends matters, which a warp looks up once. Violations are counted in registers, and a block
// adds its sum once.
#include <cuda_runtime.h>

template <typename I>
struct alignas(16) Pack {
  I at[16 / sizeof(I)];
};

// Enumerators, because run-time compilation makes variables of the module of constants at this
// level.
enum : int { kCountMode = 1 };

template <typename I>
__global__ void __launch_bounds__(BLOCK)
    bounds_check_flat(const long long* rows_per_table, I* indices, const I* offsets,
                      long long* warning, int tables, int batch, int mode, long long total) {
  constexpr int kPack = 16 / static_cast<int>(sizeof(I));
  __shared__ int of_warps[BLOCK / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long long begin = static_cast<long long>(blockIdx.x) * (BLOCK * kPack * ITEMS);
  Pack<I> packs[ITEMS];
#pragma unroll
  for (int j = 0; j < ITEMS; ++j) {
    const long long i = begin + (j * BLOCK + static_cast<int>(threadIdx.x)) * kPack;
    if (i + kPack <= total) {
      packs[j] = *reinterpret_cast<const Pack<I>*>(indices + i);
    } else {
#pragma unroll
      for (int k = 0; k < kPack; ++k)
        packs[j].at[k] = i + k < total ? indices[i + k] : static_cast<I>(-1);
    }
  }
  // The table of the block's first index: in two steps, 32 tables' ends at a time.
  const int stride = (tables + 31) / 32;
  int probe = (lane + 1) * stride - 1;
  bool before = probe < tables && offsets[static_cast<long long>(probe + 1) * batch] <= begin;
  int table = __popc(__ballot_sync(0xffffffffu, before)) * stride;
  probe = table + lane;
  before = lane < stride && probe < tables &&
           offsets[static_cast<long long>(probe + 1) * batch] <= begin;
  table += __popc(__ballot_sync(0xffffffffu, before));
  long long end = offsets[static_cast<long long>(table + 1) * batch], rows = rows_per_table[table];
  int count = 0;
#pragma unroll
  for (int j = 0; j < ITEMS; ++j) {
    const long long i = begin + (j * BLOCK + static_cast<int>(threadIdx.x)) * kPack;
    bool changed = false;
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      if (i + k >= total) break;
      while (i + k >= end) {
        ++table;
        end = offsets[static_cast<long long>(table + 1) * batch];
        rows = rows_per_table[table];
      }
      const long long index = packs[j].at[k];
      if (index == -1 || (index >= 0 && index < rows)) continue;  // A pruned row is none either.
      packs[j].at[k] = 0;
      changed = true;
      ++count;
    }
    if (!changed) continue;
    if (i + kPack <= total) {
      *reinterpret_cast<Pack<I>*>(indices + i) = packs[j];
    } else {
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        if (i + k < total) indices[i + k] = packs[j].at[k];
      }
    }
  }
  if (mode != kCountMode) return;  // All of them.
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    count += __shfl_xor_sync(0xffffffffu, count, offset);
  if (lane == 0) of_warps[warp] = count;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < BLOCK / 32; ++i) count += of_warps[i];
  if (count > 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(warning),
              static_cast<unsigned long long>(count));
}
