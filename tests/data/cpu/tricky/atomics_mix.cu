// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime.h>
extern "C" __global__ void atomics_mix(const float* x, int* mx, unsigned* bits, double* sum,
                                       int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicMax(mx, (int)(x[i] * 1000.f));
  atomicOr(bits, 1u << (i & 31));
  atomicAdd(sum, (double)x[i]);
  __hip_atomic_fetch_add(mx + 1, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
