// SPDX-License-Identifier: Apache-2.0
// Generalized dot-product attention: O = P V with P = scale * act(Q K^T) over jagged sequences, without
// softmax. A block computes BM rows of one head of one sequence: over tiles of BN keys it forms P in shared
// memory, each thread BM / TY x BN / TX of it, and adds P V to its BM / TY x D / TX results, all in fp32.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }

constexpr int kRows = BM / TY, kKeys = BN / TX, kValues = D / TX;
constexpr int kThreads = TX * TY;

// Activations by number: raw, GELU with erf, GELU with tanh, leaky ReLU, ReLU, SiLU, hard swish, ReLU squared.
__device__ __forceinline__ float Activate(float x) {
  if (ACT == 0) return x;
  if (ACT == 1) return 0.5f * x * (1.0f + erff(x * 0.70710678f));
  if (ACT == 2) {
    const float u = 0.79788456f * x * (1.0f + 0.044715f * x * x);
    // Both are the same function; the second needs no tanh.
    return FAST ? x / (1.0f + expf(-2.0f * u)) : 0.5f * x * (1.0f + tanhf(u));
  }
  if (ACT == 4) return x >= 0.0f ? x : 0.01f * x;
  if (ACT == 5) return x >= 0.0f ? x : 0.0f;
  if (ACT == 7) return x / (1.0f + expf(-x));
  if (ACT == 9) return x * fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) / 6.0f;
  return x >= 0.0f ? x * x : 0.0f;
}

struct Shared {
  __nv_bfloat16 q[BM][D + PAD];
  __nv_bfloat16 k[BN][D + PAD];
  __nv_bfloat16 v[BN][D + PAD];
  float p[BM][BN + 1];
};

// Rows [first, first + count) of one head of a jagged array [*, heads, D], zeros beyond the sequence.
__device__ __forceinline__ void Load(__nv_bfloat16 (*to)[D + PAD], const __nv_bfloat16* from, int first,
                                     int count, int length, int heads, int tid) {
  for (int i = tid; i < count * D; i += kThreads) {
    const int row = i / D, col = i % D;
    to[row][col] = first + row < length ? from[static_cast<long long>(first + row) * heads * D + col]
                                        : __float2bfloat16(0.0f);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    gdpa_forward(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
                 const long long* q_offsets, const long long* k_offsets, __nv_bfloat16* out, int heads,
                 int group, int window, float scale) {
  __shared__ Shared shared;
  const int sequence = blockIdx.z, head = blockIdx.y, row0 = blockIdx.x * BM;
  const long long q_start = q_offsets[sequence], k_start = k_offsets[sequence];
  const int q_length = static_cast<int>(q_offsets[sequence + 1] - q_start);
  const int k_length = static_cast<int>(k_offsets[sequence + 1] - k_start);
  if (row0 >= q_length) return;  // The whole block.
  const int tid = threadIdx.y * TX + threadIdx.x, kv_heads = heads / group;
  const long long q_first = (q_start * heads + head) * D;
  const long long k_first = (k_start * kv_heads + head / group) * D;
  Load(shared.q, q + q_first, row0, BM, q_length, heads, tid);
  float sums[kRows][kValues] = {};
  for (int key0 = 0; key0 < k_length; key0 += BN) {
    __syncthreads();  // The previous tile has been read.
    Load(shared.k, k + k_first, key0, BN, k_length, kv_heads, tid);
    Load(shared.v, v + k_first, key0, BN, k_length, kv_heads, tid);
    __syncthreads();
    float scores[kRows][kKeys] = {};
    for (int d = 0; d < D; ++d) {
      float left[kRows], right[kKeys];
#pragma unroll
      for (int i = 0; i < kRows; ++i) left[i] = ToFloat(shared.q[threadIdx.y + i * TY][d]);
#pragma unroll
      for (int j = 0; j < kKeys; ++j) right[j] = ToFloat(shared.k[threadIdx.x + j * TX][d]);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kKeys; ++j) scores[i][j] += left[i] * right[j];
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = row0 + threadIdx.y + i * TY;
#pragma unroll
      for (int j = 0; j < kKeys; ++j) {
        const int key = key0 + threadIdx.x + j * TX;
        const bool near = window < 0 || (row - key <= window && key - row <= window);
        shared.p[threadIdx.y + i * TY][threadIdx.x + j * TX] =
            near && key < k_length ? scale * Activate(scores[i][j]) : 0.0f;
      }
    }
    __syncthreads();
    for (int n = 0; n < BN; ++n) {
      float left[kRows], right[kValues];
#pragma unroll
      for (int i = 0; i < kRows; ++i) left[i] = shared.p[threadIdx.y + i * TY][n];
#pragma unroll
      for (int j = 0; j < kValues; ++j) right[j] = ToFloat(shared.v[n][threadIdx.x + j * TX]);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kValues; ++j) sums[i][j] += left[i] * right[j];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = row0 + threadIdx.y + i * TY;
    if (row >= q_length) continue;
#pragma unroll
    for (int j = 0; j < kValues; ++j) {
      out[q_first + static_cast<long long>(row) * heads * D + threadIdx.x + j * TX] =
          __float2bfloat16(sums[i][j]);
    }
  }
}
