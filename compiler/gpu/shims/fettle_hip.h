// What a HIP-dialect source sees before its first line on AMD.
#pragma once
#include "fettle_bf16.h"

// The old names of indices, which hiprtc's built-in header does not have.
#ifndef hipThreadIdx_x
#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#endif
#ifndef hipBlockIdx_x
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#endif
#ifndef hipBlockDim_x
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#endif
#ifndef hipGridDim_x
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z
#endif
