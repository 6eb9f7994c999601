// SPDX-License-Identifier: Apache-2.0
// Softmax of rows: BLOCK threads share a row, a block holds ROWS rows. The largest element first, then
// the sum of exponentials, then the results; with ONLINE the first two passes are one. All in fp32.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float ToFloat(float value) { return value; }
__device__ __forceinline__ float ToFloat(__half value) { return __half2float(value); }
__device__ __forceinline__ float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T> __device__ __forceinline__ T FromFloat(float value);
template <> __device__ __forceinline__ float FromFloat<float>(float value) { return value; }
template <> __device__ __forceinline__ __half FromFloat<__half>(float value) {
  return __float2half(value);
}
template <> __device__ __forceinline__ __nv_bfloat16 FromFloat<__nv_bfloat16>(float value) {
  return __float2bfloat16(value);
}

template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T values[N]; };

__device__ __forceinline__ bool Aligned(const void* pointer, int bytes) {
  return reinterpret_cast<unsigned long long>(pointer) % bytes == 0;
}

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
// Of a number and a NaN the number: a NaN reaches the results through the sum.
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Combines the values of the BLOCK threads of a row; every thread gets the result.
template <typename Op>
__device__ __forceinline__ float RowReduce(float value, float* partial, Op op) {
  for (int offset = 16; offset > 0; offset >>= 1) {
    value = op(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  if (BLOCK == 32) return value;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  __syncthreads();  // The previous result has been read.
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  value = partial[0];
  for (int i = 1; i < BLOCK / 32; ++i) value = op(value, partial[i]);
  return value;
}

// exp(x - top). A thread that has seen nothing but -inf has no top yet: those terms count nothing.
__device__ __forceinline__ float Term(float x, float top) {
  return x == top && x < 0.0f && isinf(x) ? 0.0f : expf(x - top);
}

// What a sum of exponentials relative to `from` is relative to `to`, the larger one.
__device__ __forceinline__ float Rescale(float sum, float from, float to) {
  return from == to ? sum : sum * expf(from - to);
}

template <typename T, int N>
__device__ __forceinline__ void Softmax(const T* x, T* y, bool live, int cols, float* partial) {
  using Packed = Pack<T, N>;
  const Packed* packed = reinterpret_cast<const Packed*>(x);
  const int packs = live ? cols / N : 0;
  float top = __int_as_float(static_cast<int>(0xff800000u)), sum = 0;  // From -inf.
  for (int i = threadIdx.x; i < packs; i += BLOCK) {
    const Packed pack = packed[i];
    float largest = ToFloat(pack.values[0]);
#pragma unroll
    for (int k = 1; k < N; ++k) largest = fmaxf(largest, ToFloat(pack.values[k]));
    if (ONLINE) {
      const float higher = fmaxf(top, largest);
      sum = Rescale(sum, top, higher);
      top = higher;
#pragma unroll
      for (int k = 0; k < N; ++k) sum += Term(ToFloat(pack.values[k]), top);
    } else {
      top = fmaxf(top, largest);
    }
  }
  const float row_top = RowReduce(top, partial, Max());
  if (ONLINE) {
    sum = Rescale(sum, top, row_top);
  } else {
    for (int i = threadIdx.x; i < packs; i += BLOCK) {
      const Packed pack = packed[i];
#pragma unroll
      for (int k = 0; k < N; ++k) sum += expf(ToFloat(pack.values[k]) - row_top);
    }
  }
  const float scale = 1.0f / RowReduce(sum, partial, Add());
  for (int i = threadIdx.x; i < packs; i += BLOCK) {
    const Packed pack = packed[i];
    Packed out;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      out.values[k] = FromFloat<T>(expf(ToFloat(pack.values[k]) - row_top) * scale);
    }
    reinterpret_cast<Packed*>(y)[i] = out;
  }
}

template <typename T>
__global__ void __launch_bounds__(BLOCK* ROWS) softmax_fwd(const T* x, T* y, int rows, int cols) {
  __shared__ float partial[ROWS][BLOCK / 32 + 1];
  const int row = blockIdx.x * ROWS + threadIdx.y;
  const bool live = row < rows;  // Threads without a row still meet the others at the barriers.
  const long long start = live ? static_cast<long long>(row) * cols : 0;
  const int bytes = sizeof(T) * VEC;
  if (cols % VEC == 0 && Aligned(x, bytes) && Aligned(y, bytes)) {
    Softmax<T, VEC>(x + start, y + start, live, cols, partial[threadIdx.y]);
  } else {
    Softmax<T, 1>(x + start, y + start, live, cols, partial[threadIdx.y]);
  }
}
