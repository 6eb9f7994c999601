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

#define __shared__ __attribute__((shared))
#define FETTLE_BLOCK_INDEX ((unsigned long long)__builtin_amdgcn_workgroup_id_x())
#define FETTLE_THREAD_INDEX __builtin_amdgcn_workitem_id_x()
#define FETTLE_BARRIER()                                   \
  do {                                                     \
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); \
    __builtin_amdgcn_s_barrier();                          \
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); \
  } while (0)
#define FETTLE_ADD_TO_GLOBAL(to, value) \
  __hip_atomic_fetch_add(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#include "digest.h"
#include "matrix.h"

#pragma clang fp contract(off)
#define FETTLE_DRAW __device__ __attribute__((always_inline)) inline
#define FETTLE_SQRT(x) __builtin_sqrt(x)
#include "../../core/draw.h"
#include "draw.h"
