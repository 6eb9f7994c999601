// SPDX-License-Identifier: Apache-2.0
// Softmax: a row is read once, with all loads in flight together, and stays in registers; one
// exponential per element. The threads of a row meet once: a warp's terms count from the warp's own
// largest element, and are scaled to the row's at the end. Types of 16 bits give a row to BLOCK threads,
// fp32 to BLOCKF. What does not fit into KEEP (KEEPF) packs of a thread is read again for each pass.
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

__device__ __forceinline__ bool Aligned(const void* pointer) {
  return reinterpret_cast<unsigned long long>(pointer) % 16 == 0;
}

// Of a number and a NaN the number: a NaN reaches the results through the sum.
__device__ __forceinline__ float WarpMax(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}

__device__ __forceinline__ float WarpSum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

struct alignas(8) Part {
  float top, sum;
};

// exp(x - top). Rounded to 16 bits afterwards the cheap form does, for fp32 it costs half of the error
// budget.
template <typename T> __device__ __forceinline__ float Term(float x, float top) {
  return sizeof(T) == 4 ? expf(x - top) : exp2f((x - top) * 1.44269504f);
}

template <int kThreads, int kKeep, int N, typename T>
__device__ __forceinline__ void Softmax(const T* x, T* y, bool live, int cols, Part* parts) {
  using Packed = Pack<T, N>;
  const Packed* from = reinterpret_cast<const Packed*>(x);
  Packed* to = reinterpret_cast<Packed*>(y);
  const int packs = live ? cols / N : 0;
  const int tid = threadIdx.x;
  Packed held[kKeep];
#pragma unroll
  for (int j = 0; j < kKeep; ++j) {
    if (tid + j * kThreads < packs) held[j] = from[tid + j * kThreads];
  }
  float top = __int_as_float(static_cast<int>(0xff800000u)), sum = 0;  // From -inf.
#pragma unroll
  for (int j = 0; j < kKeep; ++j) {
    if (tid + j * kThreads < packs) {
#pragma unroll
      for (int k = 0; k < N; ++k) top = fmaxf(top, ToFloat(held[j].values[k]));
    }
  }
#pragma unroll 1
  for (int i = tid + kKeep * kThreads; i < packs; i += kThreads) {
    const Packed pack = from[i];
#pragma unroll
    for (int k = 0; k < N; ++k) top = fmaxf(top, ToFloat(pack.values[k]));
  }
  top = WarpMax(top);
  // A warp that has seen nothing but -inf counts from zero: -inf - -inf would be a NaN.
  const float from_top = kThreads > 32 && top < 0 && isinf(top) ? 0.0f : top;
  float terms[kKeep][N];
#pragma unroll
  for (int j = 0; j < kKeep; ++j) {
    if (tid + j * kThreads < packs) {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        terms[j][k] = Term<T>(ToFloat(held[j].values[k]), from_top);
        sum += terms[j][k];
      }
    }
  }
#pragma unroll 1
  for (int i = tid + kKeep * kThreads; i < packs; i += kThreads) {
    const Packed pack = from[i];
#pragma unroll
    for (int k = 0; k < N; ++k) sum += Term<T>(ToFloat(pack.values[k]), from_top);
  }
  sum = WarpSum(sum);
  float scale;
  if (kThreads == 32) {
    scale = 1.0f / sum;
  } else {
    // The warps' tops and sums meet once; each then knows the row's and its own distance to it.
    if (tid % 32 == 0) parts[tid / 32] = Part{top, sum};
    __syncthreads();
    float row_top = parts[0].top;
#pragma unroll
    for (int i = 1; i < kThreads / 32; ++i) row_top = fmaxf(row_top, parts[i].top);
    float row_sum = 0;
#pragma unroll
    for (int i = 0; i < kThreads / 32; ++i) row_sum += parts[i].sum * expf(parts[i].top - row_top);
    scale = expf(top - row_top) / row_sum;
  }
#pragma unroll
  for (int j = 0; j < kKeep; ++j) {
    if (tid + j * kThreads < packs) {
      Packed out;
#pragma unroll
      for (int k = 0; k < N; ++k) out.values[k] = FromFloat<T>(terms[j][k] * scale);
      to[tid + j * kThreads] = out;
    }
  }
#pragma unroll 1
  for (int i = tid + kKeep * kThreads; i < packs; i += kThreads) {
    const Packed pack = from[i];
    Packed out;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      out.values[k] = FromFloat<T>(Term<T>(ToFloat(pack.values[k]), from_top) * scale);
    }
    to[i] = out;
  }
}

template <typename T>
__global__ void __launch_bounds__((sizeof(T) == 4 ? BLOCKF : BLOCK) *
                                  (sizeof(T) == 4 ? ROWSF : ROWS))
    softmax_fwd(const T* x, T* y, int rows, int cols) {
  constexpr int kThreads = sizeof(T) == 4 ? BLOCKF : BLOCK, kRows = sizeof(T) == 4 ? ROWSF : ROWS;
  constexpr int kKeep = sizeof(T) == 4 ? KEEPF : KEEP, kWide = 16 / sizeof(T);
  __shared__ Part parts[kRows][kThreads / 32];
  const int row = blockIdx.x * kRows + threadIdx.y;
  const bool live = row < rows;  // Threads without a row still meet the others at the barriers.
  const long long start = live ? static_cast<long long>(row) * cols : 0;
  if (cols % kWide == 0 && Aligned(x) && Aligned(y)) {
    Softmax<kThreads, kKeep, kWide>(x + start, y + start, live, cols, parts[threadIdx.y]);
  } else {
    Softmax<kThreads, kKeep, 1>(x + start, y + start, live, cols, parts[threadIdx.y]);
  }
}
