// SPDX-License-Identifier: Apache-2.0
#pragma once

// Qualifiers, built-in variables and dynamic shared memory.

#define __global__
#define __device__
#define __host__
// A section of its own tells constants from state that a kernel can keep.
#define __constant__ __attribute__((section(".fettle_constant")))
#define __managed__
#define __grid_constant__
#define __restrict __restrict__
#define __forceinline__ inline __attribute__((always_inline))
#ifndef __noinline__
#define __noinline__ __attribute__((noinline))
#endif
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))

// Check mode runs on one OS thread, so a static is one block's shared memory, with its bounds in the
// symbol table. Fast mode runs one block per OS thread.
#if FETTLE_CPU_CHECK
#define __shared__ static
#else
#define __shared__ thread_local
#endif

#define FETTLE_INLINE static inline __attribute__((always_inline, unused))
#define FETTLE_UNCHECKED __attribute__((no_sanitize("thread"), no_sanitize("undefined")))

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

#if FETTLE_CPU_CHECK
#define FETTLE_KEEP_INDICES
#define FETTLE_RESTORE_INDICES
FETTLE_INLINE uint3 fettle_thread_index() {
  const fettle_uint3 v = fettle_rt_thread_index();
  return {v.x, v.y, v.z};
}
FETTLE_INLINE uint3 fettle_block_index() {
  const fettle_uint3 v = fettle_rt_block_index();
  return {v.x, v.y, v.z};
}
FETTLE_INLINE dim3 fettle_block_size() {
  const fettle_uint3 v = fettle_rt_block_size();
  return {v.x, v.y, v.z};
}
FETTLE_INLINE dim3 fettle_grid_size() {
  const fettle_uint3 v = fettle_rt_grid_size();
  return {v.x, v.y, v.z};
}
FETTLE_INLINE unsigned fettle_lane() { return fettle_rt_lane(); }
FETTLE_INLINE void* fettle_dynamic_shared() { return fettle_rt_dynamic_shared(); }
#else
// Of internal linkage and never address-taken: no pointer of the kernel can alias them, so the loop
// over a block's threads keeps them in registers and vectorises. A fiber that waits restores its own
// from its stack.
static __thread unsigned fettle_thread_x, fettle_thread_y, fettle_thread_z, fettle_thread_linear;
static __thread unsigned fettle_block_x, fettle_block_y, fettle_block_z;
static __thread unsigned fettle_block_size_x, fettle_block_size_y, fettle_block_size_z;
static __thread unsigned fettle_grid_x, fettle_grid_y, fettle_grid_z;
static __thread void* fettle_dynamic_shared_base;
#define FETTLE_KEEP_INDICES                                                        \
  const unsigned fettle_kept_x = fettle_thread_x, fettle_kept_y = fettle_thread_y, \
                 fettle_kept_z = fettle_thread_z, fettle_kept_linear = fettle_thread_linear;
#define FETTLE_RESTORE_INDICES                \
  fettle_thread_x = fettle_kept_x;            \
  fettle_thread_y = fettle_kept_y;            \
  fettle_thread_z = fettle_kept_z;            \
  fettle_thread_linear = fettle_kept_linear;
FETTLE_INLINE uint3 fettle_thread_index() {
  return {fettle_thread_x, fettle_thread_y, fettle_thread_z};
}
FETTLE_INLINE uint3 fettle_block_index() { return {fettle_block_x, fettle_block_y, fettle_block_z}; }
FETTLE_INLINE dim3 fettle_block_size() {
  return {fettle_block_size_x, fettle_block_size_y, fettle_block_size_z};
}
FETTLE_INLINE dim3 fettle_grid_size() { return {fettle_grid_x, fettle_grid_y, fettle_grid_z}; }
FETTLE_INLINE unsigned fettle_lane() { return fettle_thread_linear & (FETTLE_CPU_LANES - 1); }
FETTLE_INLINE void* fettle_dynamic_shared() { return fettle_dynamic_shared_base; }
#endif

#define threadIdx (fettle_thread_index())
#define blockIdx (fettle_block_index())
#define blockDim (fettle_block_size())
#define gridDim (fettle_grid_size())
#define hipThreadIdx_x (threadIdx.x)
#define hipThreadIdx_y (threadIdx.y)
#define hipThreadIdx_z (threadIdx.z)
#define hipBlockIdx_x (blockIdx.x)
#define hipBlockIdx_y (blockIdx.y)
#define hipBlockIdx_z (blockIdx.z)
#define hipBlockDim_x (blockDim.x)
#define hipBlockDim_y (blockDim.y)
#define hipBlockDim_z (blockDim.z)
#define hipGridDim_x (gridDim.x)
#define hipGridDim_y (gridDim.y)
#define hipGridDim_z (gridDim.z)
static constexpr int warpSize = FETTLE_CPU_LANES;

// The source pass rewrites `extern __shared__ T name[];` to one of these.
#define FETTLE_DYNAMIC_SHARED_LOCAL(name, ...) \
  __VA_ARGS__* const name = (__VA_ARGS__*)fettle_dynamic_shared()
template <class T>
struct fettle_dynamic_shared_array {
  FETTLE_UNCHECKED operator T*() const { return (T*)fettle_dynamic_shared(); }
};
#define FETTLE_DYNAMIC_SHARED_GLOBAL(name, ...) \
  static const fettle_dynamic_shared_array<__VA_ARGS__> name {}
#define HIP_DYNAMIC_SHARED(type, name) FETTLE_DYNAMIC_SHARED_LOCAL(name, type);

#define hipLaunchKernelGGL(...) static_assert(false, "host code in a kernel source")

#define clock64() ((long long)fettle_rt_clock())
#define clock() ((long)fettle_rt_clock())
#define wall_clock64() ((long long)fettle_rt_clock())
#define __trap() fettle_rt_trap(__LINE__, "__trap()")
#define __nanosleep(n) ((void)(n))
#define __builtin_amdgcn_s_sleep(n) ((void)(n))
#undef assert
#ifdef NDEBUG
#define assert(x) ((void)0)
#else
#define assert(x) ((x) ? (void)0 : fettle_rt_trap(__LINE__, "assert(" #x ") failed"))
#endif
#define __builtin_assume(x) ((void)0)
// Kernels print nothing here: the runner's output is not theirs.
#define printf(...) (0)
