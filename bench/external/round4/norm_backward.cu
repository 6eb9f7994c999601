// SPDX-License-Identifier: Apache-2.0
// Gradient of layer normalization (CENTER 1) or RMS normalization (CENTER 0) in one pass: a block
// has whole rows, one after another, in registers, writes their dx, and adds up what its rows give
// each column. The next row is on its way while this one is summed. A second launch adds up the
// blocks' columns in a fixed order.
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

template <typename T>
struct alignas(16) Pack {
  T at[16 / sizeof(T)];
};

// Enumerators, because run-time compilation makes variables of the module of constants at this
// level.
enum : int { kFinalX = 32, kFinalY = 16 };

// kThreads threads a row of up to kColumns columns, a multiple of 16 bytes.
template <typename T, int kThreads, int kColumns>
__global__ void __launch_bounds__(kThreads, 512 / kThreads)
    norm_backward_rows(const T* dy, const T* x, const T* gamma, const float* mean,
                       const float* rstd, T* dx, float* partial, int rows, int cols) {
  constexpr int kVec = 16 / static_cast<int>(sizeof(T)), kWarps = kThreads / 32;
  constexpr int kPacks = (kColumns + kThreads * kVec - 1) / (kThreads * kVec);
  __shared__ float shared[2][2][kWarps];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  float to_gamma[kPacks][kVec], to_beta[CENTER ? kPacks : 1][kVec];
  Pack<T> scale[kPacks], of_dy[kPacks], of_x[kPacks];
  const auto load = [&](Pack<T>(&to)[kPacks], const T* from) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int col = (p * kThreads + tid) * kVec;
      if (col < cols) to[p] = *reinterpret_cast<const Pack<T>*>(from + col);
    }
  };
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      to_gamma[p][i] = to_beta[CENTER ? p : 0][i] = 0.0f;
      Put(&scale[p].at[i], 0.0f);
      Put(&of_dy[p].at[i], 0.0f);
      Put(&of_x[p].at[i], 0.0f);
    }
  }
  load(scale, gamma);
  int row = blockIdx.x;
  if (row < rows) {
    load(of_dy, dy + static_cast<long long>(row) * cols);
    load(of_x, x + static_cast<long long>(row) * cols);
  }
  for (int turn = 0; row < rows; ++turn, row += gridDim.x) {
    const float inverse = rstd[row], center = CENTER ? mean[row] : 0.0f;
    float sum = 0, across = 0;
    float weighted[kPacks][kVec], normal[kPacks][kVec];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const bool inside = (p * kThreads + tid) * kVec < cols;
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        const float grad = ToFloat(of_dy[p].at[i]);
        normal[p][i] = inside ? (ToFloat(of_x[p].at[i]) - center) * inverse : 0.0f;
        weighted[p][i] = grad * ToFloat(scale[p].at[i]);
        to_gamma[p][i] += grad * normal[p][i];
        if (CENTER) to_beta[CENTER ? p : 0][i] += grad;
        sum += weighted[p][i];
        across += weighted[p][i] * normal[p][i];
      }
    }
    const long long start = static_cast<long long>(row) * cols;
    const int next = row + static_cast<int>(gridDim.x);
    if (next < rows) {
      load(of_dy, dy + static_cast<long long>(next) * cols);
      load(of_x, x + static_cast<long long>(next) * cols);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      if (CENTER) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
      across += __shfl_xor_sync(0xffffffffu, across, offset);
    }
    // Two places in turn, so that one barrier a row is enough.
    float(&places)[2][kWarps] = shared[turn % 2];
    if (lane == 0) {
      places[0][warp] = sum;
      places[1][warp] = across;
    }
    __syncthreads();
    sum = across = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
      sum += places[0][i];
      across += places[1][i];
    }
    sum = CENTER ? sum / cols : 0.0f;
    across /= cols;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int col = (p * kThreads + tid) * kVec;
      if (col >= cols) continue;
      Pack<T> out;
#pragma unroll
      for (int i = 0; i < kVec; ++i)
        Put(&out.at[i], inverse * (weighted[p][i] - sum - normal[p][i] * across));
      *reinterpret_cast<Pack<T>*>(dx + start + col) = out;
    }
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int col = (p * kThreads + tid) * kVec;
    if (col >= cols) continue;
    float* to = partial + static_cast<long long>(blockIdx.x) * (CENTER + 1) * cols + col;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      to[i] = to_gamma[p][i];
      if (CENTER) to[cols + i] = to_beta[CENTER ? p : 0][i];
    }
  }
}

extern "C" __global__ void __launch_bounds__(kFinalX* kFinalY)
    norm_backward_columns(const float* partial, float* dgamma, float* dbeta, int cols, int parts) {
  __shared__ float shared[CENTER + 1][kFinalY][kFinalX];
  const int col = blockIdx.x * kFinalX + threadIdx.x;
  float sums[2] = {0.0f, 0.0f};
  for (int part = threadIdx.y; part < parts && col < cols; part += kFinalY) {
    const float* from = partial + static_cast<long long>(part) * (CENTER + 1) * cols + col;
    sums[0] += from[0];
    if (CENTER) sums[1] += from[cols];
  }
  for (int i = 0; i <= CENTER; ++i) shared[i][threadIdx.y][threadIdx.x] = sums[i];
  __syncthreads();
  if (threadIdx.y != 0 || col >= cols) return;
  for (int i = 0; i <= CENTER; ++i) {
    float sum = 0;
    for (int y = 0; y < kFinalY; ++y) sum += shared[i][y][threadIdx.x];
    (i == 0 ? dgamma : dbeta)[col] = sum;
  }
}
