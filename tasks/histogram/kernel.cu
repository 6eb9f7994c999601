// SPDX-License-Identifier: Apache-2.0
// Histogram: each block counts BLOCK * ITEMS elements in COPIES private histograms in shared memory
// and adds the sums to the result. `counts` is zeroed before.
#include <cuda_runtime.h>

struct alignas(4 * VEC) Pack {
  int values[VEC];
};

extern "C" __global__ void __launch_bounds__(BLOCK)
    histogram(const int* data, int* counts, int n, int bins) {
  extern __shared__ int shared_counts[];
  for (int i = threadIdx.x; i < COPIES * bins; i += BLOCK) shared_counts[i] = 0;
  __syncthreads();
  int* mine = shared_counts + threadIdx.x % COPIES * bins;
  const int start = blockIdx.x * (BLOCK * ITEMS);
  const int end = n - start < BLOCK * ITEMS ? n : start + BLOCK * ITEMS;
  int done = start;
  if (VEC > 1 && reinterpret_cast<unsigned long long>(data) % sizeof(Pack) == 0) {
    const int packs = (end - start) / VEC;
    const Pack* packed = reinterpret_cast<const Pack*>(data + start);
    for (int i = threadIdx.x; i < packs; i += BLOCK) {
      const Pack pack = packed[i];
#pragma unroll
      for (int k = 0; k < VEC; ++k) atomicAdd(mine + pack.values[k], 1);
    }
    done = start + packs * VEC;
  }
  for (int i = done + static_cast<int>(threadIdx.x); i < end; i += BLOCK) {
    atomicAdd(mine + data[i], 1);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < bins; i += BLOCK) {
    int sum = 0;
    for (int copy = 0; copy < COPIES; ++copy) sum += shared_counts[copy * bins + i];
    if (sum != 0) atomicAdd(counts + i, sum);
  }
}
