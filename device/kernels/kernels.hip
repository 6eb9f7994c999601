// fettle's own kernels: see device/gpu_kernels.h. The objects beside this file are built from it by
// deploy/scripts/build_code_objects.sh. s_memrealtime counts at 100 MHz on gfx9.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))

extern "C" __global__ void fettle_spin(unsigned long ns, unsigned long* out) {
  const unsigned long start = __builtin_amdgcn_s_memrealtime();
  const unsigned long ticks = ns / 10;
  unsigned long now = 0;
  do {
    now = __builtin_amdgcn_s_memrealtime() - start;
  } while (now < ticks);
  if (out != nullptr) *out = now * 10;
}

// Launched with 256 threads a block and kDigestBlocks blocks.
#define FETTLE_THREAD \
  ((unsigned long long)__builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x())
#define FETTLE_THREADS (1024ull * 256)
#define FETTLE_ADD_TO_GLOBAL(to, value) \
  __hip_atomic_fetch_add(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#include "digest.h"
