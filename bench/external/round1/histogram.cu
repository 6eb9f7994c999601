// SPDX-License-Identifier: Apache-2.0
// Histogram: as many blocks as the device holds at once walk over the data, UNROLL wide loads in flight
// per thread. Each block has COPIES private histograms, interleaved so that copy number c of every bin
// lies in banks of its own: with 32 copies no two lanes of a warp ever meet in one bank.
#include <cuda_runtime.h>

struct alignas(16) Pack {
  int values[4];
};

extern "C" __global__ void __launch_bounds__(BLOCK)
    histogram(const int* data, int* counts, int n, int bins) {
  extern __shared__ int shared_counts[];
  for (int i = threadIdx.x; i < COPIES * bins; i += BLOCK) shared_counts[i] = 0;
  __syncthreads();
  int* mine = shared_counts + threadIdx.x % COPIES;
  const int packs = reinterpret_cast<unsigned long long>(data) % sizeof(Pack) == 0 ? n / 4 : 0;
  const Pack* packed = reinterpret_cast<const Pack*>(data);
  const int stride = gridDim.x * BLOCK;
  int i = blockIdx.x * BLOCK + threadIdx.x;
  for (; i + (UNROLL - 1) * stride < packs; i += UNROLL * stride) {
    Pack pack[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) pack[u] = packed[i + u * stride];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
      for (int k = 0; k < 4; ++k) atomicAdd(mine + pack[u].values[k] * COPIES, 1);
    }
  }
  for (; i < packs; i += stride) {
    const Pack pack = packed[i];
#pragma unroll
    for (int k = 0; k < 4; ++k) atomicAdd(mine + pack.values[k] * COPIES, 1);
  }
  for (int j = packs * 4 + blockIdx.x * BLOCK + threadIdx.x; j < n; j += stride) {
    atomicAdd(mine + data[j] * COPIES, 1);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < bins; bin += BLOCK) {
    int sum = 0;
    // Each lane begins with another copy, hence in another bank.
#pragma unroll
    for (int copy = 0; copy < COPIES; ++copy) {
      sum += shared_counts[bin * COPIES + (copy + threadIdx.x) % COPIES];
    }
    if (sum != 0) atomicAdd(counts + bin, sum);
  }
}
