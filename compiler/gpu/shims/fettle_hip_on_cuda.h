// Compiles HIP kernel source with NVRTC: included before the source's first line. Warps have 32
// lanes here, so sources must use warpSize and not 64.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define __HIP_PLATFORM_NVIDIA__ 1
#define HIP_VERSION 70200000
typedef __nv_bfloat16 __hip_bfloat16;
typedef __nv_bfloat162 __hip_bfloat162;
typedef __half half;

#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];

// HIP's forms without a mask: all lanes of the warp take part, as they must there too.
#define FETTLE_ALL_LANES 0xffffffffu
template <class T>
__device__ __forceinline__ T __shfl(T v, int lane, int width = 32) {
  return __shfl_sync(FETTLE_ALL_LANES, v, lane, width);
}
template <class T>
__device__ __forceinline__ T __shfl_up(T v, unsigned delta, int width = 32) {
  return __shfl_up_sync(FETTLE_ALL_LANES, v, delta, width);
}
template <class T>
__device__ __forceinline__ T __shfl_down(T v, unsigned delta, int width = 32) {
  return __shfl_down_sync(FETTLE_ALL_LANES, v, delta, width);
}
template <class T>
__device__ __forceinline__ T __shfl_xor(T v, int lanes, int width = 32) {
  return __shfl_xor_sync(FETTLE_ALL_LANES, v, lanes, width);
}
// CUDA's headers may declare votes without a mask that return other types, so these have their own
// names.
__device__ __forceinline__ unsigned long long fettle_hip_ballot(int p) {
  return __ballot_sync(__activemask(), p);
}
__device__ __forceinline__ int fettle_hip_any(int p) { return __any_sync(__activemask(), p); }
__device__ __forceinline__ int fettle_hip_all(int p) { return __all_sync(__activemask(), p); }
#define __ballot(p) fettle_hip_ballot(p)
#define __any(p) fettle_hip_any(p)
#define __all(p) fettle_hip_all(p)
__device__ __forceinline__ unsigned __lane_id() {
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}
__device__ __forceinline__ float unsafeAtomicAdd(float* address, float value) {
  return atomicAdd(address, value);
}
