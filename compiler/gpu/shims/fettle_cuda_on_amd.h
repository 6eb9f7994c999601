// Compiles CUDA kernel source for AMD: included before the source's first line, after the device
// API (hiprtc's own or fettle_amd_device.h).
//
// Model: "warps" of 32 lanes on a wave of 64. warpSize is 32, and the *_sync operations with their
// 32-bit masks work on the caller's half of the wave. Known gaps: code that needs the two halves of
// a wave to diverge on their own is unsafe; the masks of shuffles are ignored, and __reduce_*_sync
// is right for the full mask only. Compiled for gfx90a, gfx942 and gfx950, never run on a GPU.
#pragma once
#include "fettle_bf16.h"

#ifndef __HIP_DEVICE_COMPILE__
#define __HIP_DEVICE_COMPILE__ 1
#endif
#define FETTLE_CUDA_ON_AMD 1
#undef __CUDA_ARCH__  // Undefined keeps the generic paths of CUDA code.

namespace fettle_cuda {

constexpr int kWarp = 32;

// 32 in the upper half of a wave, else 0.
__device__ inline unsigned half_shift() { return __lane_id() & 32u; }
__device__ inline unsigned ballot(int p) {
  return static_cast<unsigned>(__ballot(p) >> half_shift());
}
template <class M>
__device__ inline unsigned ballot_masked(M mask, int p) {
  return ballot(p) & static_cast<unsigned>(mask);
}
template <class M>
__device__ inline int any_masked(M mask, int p) {
  return ballot_masked(mask, p) != 0;
}
template <class M>
__device__ inline int all_masked(M mask, int p) {
  return ballot_masked(mask, p) == (static_cast<unsigned>(mask) & ballot(1));
}
template <class M, class T>
__device__ inline T shfl(M, T v, int lane, int width = kWarp) {
  return __shfl(v, lane, width);
}
template <class M, class T>
__device__ inline T shfl_up(M, T v, unsigned delta, int width = kWarp) {
  return __shfl_up(v, delta, width);
}
template <class M, class T>
__device__ inline T shfl_down(M, T v, unsigned delta, int width = kWarp) {
  return __shfl_down(v, delta, width);
}
template <class M, class T>
__device__ inline T shfl_xor(M, T v, int lanes, int width = kWarp) {
  return __shfl_xor(v, lanes, width);
}
template <class M, class T, class F>
__device__ inline T reduce(M mask, T v, F f) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const T other = __shfl_xor(v, offset, kWarp);
    const int source = static_cast<int>((__lane_id() & 31) ^ static_cast<unsigned>(offset));
    if (static_cast<unsigned>(mask) >> source & 1u) v = f(v, other);
  }
  return v;
}
__device__ inline void sync_warp() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

}  // namespace fettle_cuda

// Defined after the templates above, which use HIP's own names.
#undef __shfl_sync
#undef __shfl_up_sync
#undef __shfl_down_sync
#undef __shfl_xor_sync
#undef __ballot_sync
#undef __any_sync
#undef __all_sync
#undef __activemask
#undef __syncwarp
#define __shfl_sync(...) fettle_cuda::shfl(__VA_ARGS__)
#define __shfl_up_sync(...) fettle_cuda::shfl_up(__VA_ARGS__)
#define __shfl_down_sync(...) fettle_cuda::shfl_down(__VA_ARGS__)
#define __shfl_xor_sync(...) fettle_cuda::shfl_xor(__VA_ARGS__)
#define __ballot_sync(mask, p) fettle_cuda::ballot_masked((mask), (p))
#define __any_sync(mask, p) fettle_cuda::any_masked((mask), (p))
#define __all_sync(mask, p) fettle_cuda::all_masked((mask), (p))
#define __activemask() fettle_cuda::ballot(1)
#define __reduce_add_sync(mask, v) \
  fettle_cuda::reduce((mask), (v), [](auto a, auto b) { return a + b; })
#define __reduce_max_sync(mask, v) \
  fettle_cuda::reduce((mask), (v), [](auto a, auto b) { return a < b ? b : a; })
#define __reduce_min_sync(mask, v) \
  fettle_cuda::reduce((mask), (v), [](auto a, auto b) { return b < a ? b : a; })
#define __syncwarp(...) fettle_cuda::sync_warp()
#define __nanosleep(ns) __builtin_amdgcn_s_sleep(1)
#undef __grid_constant__
#define __grid_constant__
#undef warpSize
#define warpSize 32

// CUDA's second argument is the least number of blocks of a multiprocessor; the attribute takes
// waves per SIMD, of which a compute unit has four.
#undef __launch_bounds__
#define FETTLE_CUDA_WAVES(threads, blocks) (((blocks) * (threads) + 255) / 256)
#define FETTLE_CUDA_BOUNDS_1(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define FETTLE_CUDA_BOUNDS_2(threads, blocks)                               \
  __attribute__((amdgpu_flat_work_group_size(1, threads),                   \
                 amdgpu_waves_per_eu(FETTLE_CUDA_WAVES(threads, blocks) > 8 \
                                         ? 8                                \
                                         : FETTLE_CUDA_WAVES(threads, blocks))))
#define FETTLE_CUDA_BOUNDS_OF(_1, _2, name, ...) name
#define __launch_bounds__(...)                                                     \
  FETTLE_CUDA_BOUNDS_OF(__VA_ARGS__, FETTLE_CUDA_BOUNDS_2, FETTLE_CUDA_BOUNDS_1, ) \
  (__VA_ARGS__)

#define cudaTextureObject_t hipTextureObject_t
#define cudaSurfaceObject_t hipSurfaceObject_t
