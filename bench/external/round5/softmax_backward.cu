// SPDX-License-Identifier: Apache-2.0
// Gradient of softmax: both inputs of a row are read once, 16 bytes a thread with all loads in
// flight together, and stay in registers. A short row belongs to a warp, which may take several at
// a time; a long one to a block, whose warps meet once. Rows that are no whole packs are read
// element by element, and what a thread cannot hold again for each pass.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float ToFloat(float value) { return value; }
__device__ __forceinline__ float ToFloat(__half value) { return __half2float(value); }
__device__ __forceinline__ float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ void Put(float* to, float value) { *to = value; }
__device__ __forceinline__ void Put(__half* to, float value) { *to = __float2half(value); }
__device__ __forceinline__ void Put(__nv_bfloat16* to, float value) {
  *to = __float2bfloat16(value);
}

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T values[N];
};

__device__ __forceinline__ bool Aligned(const void* pointer) {
  return reinterpret_cast<unsigned long long>(pointer) % 16 == 0;
}

// Over kWidth neighbouring lanes.
template <int kWidth>
__device__ __forceinline__ float Sum(float value) {
#pragma unroll
  for (int offset = kWidth / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

// kTurns rows of kThreads threads, from `row` on. With kTurns > 1 they fit into kKeep packs a
// thread.
template <int kThreads, int kKeep, int kTurns, int N, typename T>
__device__ __forceinline__ void Gradient(const T* y, const T* dy, T* dx, int row, int rows,
                                         int cols, float* parts) {
  using Packed = Pack<T, N>;
  constexpr int kWarps = kThreads / 32;
  const int tid = threadIdx.x % kThreads, packs = cols / N;
  const Packed *of_y[kTurns], *of_dy[kTurns];
  Packed held_y[kTurns][kKeep], held_dy[kTurns][kKeep];
#pragma unroll
  for (int t = 0; t < kTurns; ++t) {
    const long long start = static_cast<long long>(row + t < rows ? row + t : row) * cols;
    of_y[t] = reinterpret_cast<const Packed*>(y + start);
    of_dy[t] = reinterpret_cast<const Packed*>(dy + start);
#pragma unroll
    for (int j = 0; j < kKeep; ++j) {
      if (tid + j * kThreads < packs) {
        held_y[t][j] = of_y[t][tid + j * kThreads];
        held_dy[t][j] = of_dy[t][tid + j * kThreads];
      }
    }
  }
  // Calls visit(number, pack of y, pack of dy) for the thread's packs of a row.
  const auto each = [&](int t, auto visit) {
#pragma unroll
    for (int j = 0; j < kKeep; ++j) {
      if (tid + j * kThreads < packs) visit(tid + j * kThreads, held_y[t][j], held_dy[t][j]);
    }
    if constexpr (kTurns == 1) {
#pragma unroll 1
      for (int i = tid + kKeep * kThreads; i < packs; i += kThreads)
        visit(i, of_y[t][i], of_dy[t][i]);
    }
  };

  float sum[kTurns];
#pragma unroll
  for (int t = 0; t < kTurns; ++t) {
    sum[t] = 0;
    each(t, [&](int, const Packed& p, const Packed& d) {
      float part = 0;
#pragma unroll
      for (int k = 0; k < N; ++k) part += ToFloat(p.values[k]) * ToFloat(d.values[k]);
      sum[t] += part;
    });
  }
#pragma unroll
  for (int t = 0; t < kTurns; ++t) sum[t] = Sum<32>(sum[t]);
  if (kThreads > 32) {
    if (tid % 32 == 0) parts[tid / 32] = sum[0];
    __syncthreads();
    sum[0] = Sum<kWarps>(parts[tid % kWarps]);
  }
#pragma unroll
  for (int t = 0; t < kTurns; ++t) {
    if (row + t >= rows) continue;
    Packed* to = reinterpret_cast<Packed*>(dx + static_cast<long long>(row + t) * cols);
    each(t, [&](int i, const Packed& p, const Packed& d) {
      Packed out;
#pragma unroll
      for (int k = 0; k < N; ++k)
        Put(&out.values[k], ToFloat(p.values[k]) * (ToFloat(d.values[k]) - sum[t]));
      to[i] = out;
    });
  }
}

template <typename T>
__device__ __forceinline__ bool Wide(const T* y, const T* dy, const T* dx, int cols) {
  return cols % (16 / static_cast<int>(sizeof(T))) == 0 && Aligned(y) && Aligned(dy) && Aligned(dx);
}

// On a multiprocessor. Values of 16 bits, kept as fp32 from one pass to the next, take more
// registers.
template <typename T>
constexpr int Blocks(int threads) {
  return threads > 512 ? 1 : (sizeof(T) == 4 ? 1024 : 640) / threads;
}

// A warp has kTurns rows of up to kKeep * 512 bytes.
template <typename T, int kWarps, int kKeep, int kTurns>
__global__ void __launch_bounds__(kWarps * 32, Blocks<T>(kWarps * 32))
    softmax_backward_warps(const T* y, const T* dy, T* dx, int rows, int cols) {
  constexpr int kWide = 16 / static_cast<int>(sizeof(T));
  const int row = (blockIdx.x * kWarps + threadIdx.x / 32) * kTurns;
  if (row >= rows) return;
  if (Wide(y, dy, dx, cols) && cols <= 32 * kKeep * kWide) {
    Gradient<32, kKeep, kTurns, kWide>(y, dy, dx, row, rows, cols, nullptr);
    return;
  }
  for (int t = 0; t < kTurns && row + t < rows; ++t)
    Gradient<32, 2 * kKeep, 1, 1>(y, dy, dx, row + t, rows, cols, nullptr);
}

// A block has a row of up to kPacks * 16 bytes, or a longer one that it reads again.
template <typename T, int kThreads, int kPacks>
__global__ void __launch_bounds__(kThreads, Blocks<T>(kThreads))
    softmax_backward_block(const T* y, const T* dy, T* dx, int rows, int cols) {
  constexpr int kWide = 16 / static_cast<int>(sizeof(T)), kKeep = kPacks / kThreads;
  __shared__ float parts[kThreads / 32];
  const int row = blockIdx.x;
  if (Wide(y, dy, dx, cols)) {
    Gradient<kThreads, kKeep, 1, kWide>(y, dy, dx, row, rows, cols, parts);
  } else {
    Gradient<kThreads, 2 * kKeep, 1, 1>(y, dy, dx, row, rows, cols, parts);
  }
}
