// SPDX-License-Identifier: Apache-2.0
// Softmax: a row is read once, with all loads in flight together, and stays in registers; one
// exponential per element. Types of 16 bits give a row to BLOCK threads, fp32 to BLOCKF. What does not
// fit into KEEP (KEEPF) packs of a thread is read again for each pass.
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

struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};

// Over the kThreads threads of a row; every thread gets it.
template <int kThreads, typename Op>
__device__ __forceinline__ float RowReduce(float value, float* partial, Op op) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) {
    value = op(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  if (kThreads == 32) return value;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  __syncthreads();  // The previous result has been read.
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  value = partial[0];
#pragma unroll
  for (int i = 1; i < kThreads / 32; ++i) value = op(value, partial[i]);
  return value;
}

// exp(x - top). Rounded to 16 bits afterwards the cheap form does, for fp32 it costs half of the error
// budget.
template <typename T> __device__ __forceinline__ float Term(float x, float top) {
  return sizeof(T) == 4 ? expf(x - top) : exp2f((x - top) * 1.44269504f);
}

template <int kThreads, int kKeep, int N, typename T>
__device__ __forceinline__ void Softmax(const T* x, T* y, bool live, int cols, float* partial) {
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
  top = RowReduce<kThreads>(top, partial, Max());
  float terms[kKeep][N];
#pragma unroll
  for (int j = 0; j < kKeep; ++j) {
    if (tid + j * kThreads < packs) {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        terms[j][k] = Term<T>(ToFloat(held[j].values[k]), top);
        sum += terms[j][k];
      }
    }
  }
#pragma unroll 1
  for (int i = tid + kKeep * kThreads; i < packs; i += kThreads) {
    const Packed pack = from[i];
#pragma unroll
    for (int k = 0; k < N; ++k) sum += Term<T>(ToFloat(pack.values[k]), top);
  }
  const float scale = 1.0f / RowReduce<kThreads>(sum, partial, Add());
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
      out.values[k] = FromFloat<T>(Term<T>(ToFloat(pack.values[k]), top) * scale);
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
  __shared__ float partial[kRows][kThreads / 32];
  const int row = blockIdx.x * kRows + threadIdx.y;
  const bool live = row < rows;  // Threads without a row still meet the others at the barriers.
  const long long start = live ? static_cast<long long>(row) * cols : 0;
  if (cols % kWide == 0 && Aligned(x) && Aligned(y)) {
    Softmax<kThreads, kKeep, kWide>(x + start, y + start, live, cols, partial[threadIdx.y]);
  } else {
    Softmax<kThreads, kKeep, 1>(x + start, y + start, live, cols, partial[threadIdx.y]);
  }
}
