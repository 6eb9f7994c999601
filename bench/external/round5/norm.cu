// SPDX-License-Identifier: Apache-2.0
// Layer normalization (CENTER 1) or RMS normalization (CENTER 0): a row is read once, 16 bytes a
// thread with all loads in flight together, and stays in registers. A short row belongs to a warp,
// which may take several at a time; a long one to a block, whose warps meet once: each brings its
// sum and its squares about its own mean. Rows that are no whole packs are read element by element,
// and what a thread cannot hold again for each pass.
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

// Of a warp's columns; the squares are about their mean, or about zero without CENTER.
struct alignas(16) Part {
  float sum, squares, mean, count;
};

// kTurns rows of kThreads threads, from `row` on. With kTurns > 1 they fit into kKeep packs a
// thread.
template <int kThreads, int kKeep, int kTurns, int N, typename T>
__device__ __forceinline__ void Normalize(const T* x, const T* gamma, const T* beta, T* y,
                                          float* rstd, int row, int rows, int cols, float eps,
                                          Part* parts) {
  using Packed = Pack<T, N>;
  constexpr int kWarps = kThreads / 32;
  const int tid = threadIdx.x % kThreads, packs = cols / N;
  const Packed* from[kTurns];
  Packed held[kTurns][kKeep];
#pragma unroll
  for (int t = 0; t < kTurns; ++t) {
    const int at = row + t < rows ? row + t : row;
    from[t] = reinterpret_cast<const Packed*>(x + static_cast<long long>(at) * cols);
#pragma unroll
    for (int j = 0; j < kKeep; ++j) {
      if (tid + j * kThreads < packs) held[t][j] = from[t][tid + j * kThreads];
    }
  }
  // Calls visit(number, pack) for the thread's packs of a row.
  const auto each = [&](int t, auto visit) {
#pragma unroll
    for (int j = 0; j < kKeep; ++j) {
      if (tid + j * kThreads < packs) visit(tid + j * kThreads, held[t][j]);
    }
    if constexpr (kTurns == 1) {
#pragma unroll 1
      for (int i = tid + kKeep * kThreads; i < packs; i += kThreads) visit(i, from[t][i]);
    }
  };

  float sum[kTurns], squares[kTurns], mean[kTurns];
  const int first = tid / 32 * 32, last = packs % kThreads - first;  // Of the warp in a last turn.
  const int count = (packs / kThreads * 32 + (last < 0 ? 0 : last < 32 ? last : 32)) * N;
#pragma unroll
  for (int t = 0; t < kTurns; ++t) {
    sum[t] = mean[t] = squares[t] = 0;
    if (!CENTER) continue;
    each(t, [&](int, const Packed& pack) {
      float part = 0;
#pragma unroll
      for (int k = 0; k < N; ++k) part += ToFloat(pack.values[k]);
      sum[t] += part;
    });
  }
#pragma unroll
  for (int t = 0; t < kTurns; ++t) {
    if (CENTER) {
      sum[t] = Sum<32>(sum[t]);
      mean[t] = count > 0 ? sum[t] / static_cast<float>(count) : 0.0f;
    }
  }
#pragma unroll
  for (int t = 0; t < kTurns; ++t) {
    each(t, [&](int, const Packed& pack) {
      float part = 0;
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float apart = CENTER ? ToFloat(pack.values[k]) - mean[t] : ToFloat(pack.values[k]);
        part += apart * apart;
      }
      squares[t] += part;
    });
  }
#pragma unroll
  for (int t = 0; t < kTurns; ++t) squares[t] = Sum<32>(squares[t]);
  if (kThreads > 32) {
    if (tid % 32 == 0)
      parts[tid / 32] = Part{sum[0], squares[0], mean[0], static_cast<float>(count)};
    __syncthreads();
    const Part part = parts[tid % kWarps];
    float own = part.squares;
    if (CENTER) {
      mean[0] = Sum<kWarps>(part.sum) / static_cast<float>(cols);
      const float apart = part.mean - mean[0];
      own += part.count * (apart * apart);
    }
    squares[0] = Sum<kWarps>(own);
  }

#pragma unroll
  for (int t = 0; t < kTurns; ++t) {
    if (row + t >= rows) continue;
    const float scale = 1.0f / sqrtf(squares[t] / static_cast<float>(cols) + eps);
    Packed* to = reinterpret_cast<Packed*>(y + static_cast<long long>(row + t) * cols);
    each(t, [&](int i, const Packed& pack) {
      const Packed g = reinterpret_cast<const Packed*>(gamma)[i];
      Packed b, out;
      if (CENTER) b = reinterpret_cast<const Packed*>(beta)[i];
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float value = ToFloat(pack.values[k]), factor = ToFloat(g.values[k]);
        Put(&out.values[k], CENTER ? (value - mean[t]) * scale * factor + ToFloat(b.values[k])
                                   : value * scale * factor);
      }
      to[i] = out;
    });
    if (!CENTER && tid == 0) rstd[row + t] = scale;
  }
}

template <typename T>
__device__ __forceinline__ bool Wide(const T* x, const T* gamma, const T* beta, const T* y,
                                     int cols) {
  return cols % (16 / static_cast<int>(sizeof(T))) == 0 && Aligned(x) && Aligned(gamma) &&
         Aligned(beta) && Aligned(y);
}

// A warp has kTurns rows of up to kKeep * 512 bytes.
template <typename T, int kWarps, int kKeep, int kTurns>
__global__ void __launch_bounds__(kWarps * 32, 32 / kWarps)
    norm_warps(const T* x, const T* gamma, const T* beta, T* y, float* rstd, int rows, int cols,
               float eps) {
  constexpr int kWide = 16 / static_cast<int>(sizeof(T));
  const int row = (blockIdx.x * kWarps + threadIdx.x / 32) * kTurns;
  if (row >= rows) return;
  if (Wide(x, gamma, beta, y, cols) && cols <= 32 * kKeep * kWide) {
    Normalize<32, kKeep, kTurns, kWide>(x, gamma, beta, y, rstd, row, rows, cols, eps, nullptr);
    return;
  }
  for (int t = 0; t < kTurns && row + t < rows; ++t)
    Normalize<32, 4 * kKeep, 1, 1>(x, gamma, beta, y, rstd, row + t, rows, cols, eps, nullptr);
}

// A block has a row of up to kPacks * 16 bytes, or a longer one that it reads again.
template <typename T, int kThreads, int kPacks>
__global__ void __launch_bounds__(kThreads, 1024 / kThreads)
    norm_block(const T* x, const T* gamma, const T* beta, T* y, float* rstd, int rows, int cols,
               float eps) {
  constexpr int kWide = 16 / static_cast<int>(sizeof(T)), kKeep = kPacks / kThreads;
  __shared__ Part parts[kThreads / 32];
  const int row = blockIdx.x;
  if (Wide(x, gamma, beta, y, cols)) {
    Normalize<kThreads, kKeep, 1, kWide>(x, gamma, beta, y, rstd, row, rows, cols, eps, parts);
  } else {
    Normalize<kThreads, 4 * kKeep, 1, 1>(x, gamma, beta, y, rstd, row, rows, cols, eps, parts);
  }
}
