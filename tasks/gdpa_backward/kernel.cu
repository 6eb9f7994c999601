// SPDX-License-Identifier: Apache-2.0
// Gradient of generalized dot-product attention, P = scale * act(Q K^T), O = P V, with P computed anew. The
// first kernel gives dQ: a block has BM queries and goes over tiles of BN keys. The second gives dK and dV: a
// block has BN keys and goes over tiles of BM queries of all heads that share them. No atomics: the order of
// the sums is fixed.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }

constexpr int kRows = BM / TY, kKeys = BN / TX;         // Of the products of a tile, per thread.
constexpr int kColumns = D / TX, kKeyRows = BN / TY;    // Of the results.
constexpr int kThreads = TX * TY;

// Activations by number: raw, GELU with erf, GELU with tanh, SiLU, ReLU squared; and their derivatives.
__device__ __forceinline__ void Activate(float x, float* value, float* slope) {
  if (ACT == 0) {
    *value = x;
    *slope = 1.0f;
  } else if (ACT == 1) {
    const float below = 0.5f * (1.0f + erff(x * 0.70710678f));
    *value = x * below;
    *slope = below + x * 0.39894228f * expf(-0.5f * x * x);
  } else if (ACT == 2) {
    const float t = tanhf(0.79788456f * x * (1.0f + 0.044715f * x * x));
    *value = 0.5f * x * (1.0f + t);
    *slope = 0.5f * x * (1.0f - t * t) * (0.79788456f + 0.10703222f * x * x) + 0.5f * (1.0f + t);
  } else if (ACT == 7) {
    const float sigmoid = 1.0f / (1.0f + expf(-x));
    *value = x * sigmoid;
    *slope = sigmoid * (1.0f + x * (1.0f - sigmoid));
  } else {
    const float positive = fmaxf(x, 0.0f);
    *value = positive * positive;
    *slope = 2.0f * positive;
  }
}

struct Problem {
  const __nv_bfloat16 *q, *k, *v, *grad;
  long long q_first, k_first;  // Of the sequence's first row, head 0.
  int q_length, k_length, heads, kv_heads, window;
  float scale;

  __device__ bool Near(int row, int key) const {
    return row < q_length && key < k_length &&
           (window < 0 || (row - key <= window && key - row <= window));
  }
};

__device__ __forceinline__ Problem MakeProblem(const __nv_bfloat16* q, const __nv_bfloat16* k,
                                               const __nv_bfloat16* v, const __nv_bfloat16* grad,
                                               const long long* q_offsets, const long long* k_offsets,
                                               int heads, int group, int window, float scale) {
  const int b = blockIdx.z;
  Problem p = {q, k, v, grad};
  p.heads = heads;
  p.kv_heads = heads / group;
  p.q_first = q_offsets[b] * heads * D;
  p.k_first = k_offsets[b] * p.kv_heads * D;
  p.q_length = static_cast<int>(q_offsets[b + 1] - q_offsets[b]);
  p.k_length = static_cast<int>(k_offsets[b + 1] - k_offsets[b]);
  p.window = window;
  p.scale = scale;
  return p;
}

struct Shared {
  __nv_bfloat16 q[BM][D + PAD], grad[BM][D + PAD];
  __nv_bfloat16 k[BN][D + PAD], v[BN][D + PAD];
  float p[BM][BN + 1], ds[BM][BN + 1];
};

// Rows [first, first + count) of one head of a jagged array, zeros beyond the sequence.
__device__ __forceinline__ void Load(__nv_bfloat16 (*to)[D + PAD], const __nv_bfloat16* from, int first,
                                     int count, int length, int heads) {
  for (int i = threadIdx.y * TX + threadIdx.x; i < count * D; i += kThreads) {
    const int row = i / D, col = i % D;
    to[row][col] = first + row < length ? from[static_cast<long long>(first + row) * heads * D + col]
                                        : __float2bfloat16(0.0f);
  }
}

// P and dS of a tile, from Q, K, V and dO in shared memory.
__device__ __forceinline__ void Products(const Problem& problem, Shared& shared, int row0, int key0) {
  float scores[kRows][kKeys] = {}, grads[kRows][kKeys] = {};
  for (int d = 0; d < D; ++d) {
    float q[kRows], grad[kRows], k[kKeys], v[kKeys];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      q[i] = ToFloat(shared.q[threadIdx.y + i * TY][d]);
      grad[i] = ToFloat(shared.grad[threadIdx.y + i * TY][d]);
    }
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      k[j] = ToFloat(shared.k[threadIdx.x + j * TX][d]);
      v[j] = ToFloat(shared.v[threadIdx.x + j * TX][d]);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
#pragma unroll
      for (int j = 0; j < kKeys; ++j) {
        scores[i][j] += q[i] * k[j];
        grads[i][j] += grad[i] * v[j];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = threadIdx.y + i * TY;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      const int key = threadIdx.x + j * TX;
      float value, slope;
      Activate(scores[i][j], &value, &slope);
      const bool near = problem.Near(row0 + row, key0 + key);
      shared.p[row][key] = near ? problem.scale * value : 0.0f;
      shared.ds[row][key] = near ? problem.scale * slope * grads[i][j] : 0.0f;
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    gdpa_backward_q(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
                    const __nv_bfloat16* grad, const long long* q_offsets, const long long* k_offsets,
                    __nv_bfloat16* dq, int heads, int group, int window, float scale) {
  __shared__ Shared shared;
  const Problem p = MakeProblem(q, k, v, grad, q_offsets, k_offsets, heads, group, window, scale);
  const int head = blockIdx.y, row0 = blockIdx.x * BM;
  if (row0 >= p.q_length) return;  // The whole block.
  const long long q_first = p.q_first + head * D, k_first = p.k_first + head / group * D;
  Load(shared.q, q + q_first, row0, BM, p.q_length, heads);
  Load(shared.grad, grad + q_first, row0, BM, p.q_length, heads);
  float sums[kRows][kColumns] = {};
  for (int key0 = 0; key0 < p.k_length; key0 += BN) {
    __syncthreads();  // The previous tile has been read.
    Load(shared.k, k + k_first, key0, BN, p.k_length, p.kv_heads);
    Load(shared.v, v + k_first, key0, BN, p.k_length, p.kv_heads);
    __syncthreads();
    Products(p, shared, row0, key0);
    __syncthreads();
    for (int n = 0; n < BN; ++n) {
      float right[kColumns];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) right[j] = ToFloat(shared.k[n][threadIdx.x + j * TX]);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const float left = shared.ds[threadIdx.y + i * TY][n];
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sums[i][j] += left * right[j];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = row0 + threadIdx.y + i * TY;
    if (row >= p.q_length) continue;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      dq[q_first + static_cast<long long>(row) * heads * D + threadIdx.x + j * TX] =
          __float2bfloat16(sums[i][j]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    gdpa_backward_kv(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
                     const __nv_bfloat16* grad, const long long* q_offsets, const long long* k_offsets,
                     __nv_bfloat16* dk, __nv_bfloat16* dv, int heads, int group, int window, float scale) {
  __shared__ Shared shared;
  const Problem p = MakeProblem(q, k, v, grad, q_offsets, k_offsets, heads, group, window, scale);
  const int kv_head = blockIdx.y, key0 = blockIdx.x * BN;
  if (key0 >= p.k_length) return;  // The whole block.
  const long long k_first = p.k_first + kv_head * D;
  Load(shared.k, k + k_first, key0, BN, p.k_length, p.kv_heads);
  Load(shared.v, v + k_first, key0, BN, p.k_length, p.kv_heads);
  float key_sums[kKeyRows][kColumns] = {}, value_sums[kKeyRows][kColumns] = {};
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int row0 = 0; row0 < p.q_length; row0 += BM) {
      __syncthreads();  // The previous tile has been read.
      Load(shared.q, q + p.q_first + head * D, row0, BM, p.q_length, heads);
      Load(shared.grad, grad + p.q_first + head * D, row0, BM, p.q_length, heads);
      __syncthreads();
      Products(p, shared, row0, key0);
      __syncthreads();
      for (int m = 0; m < BM; ++m) {
        float of_q[kColumns], of_grad[kColumns];
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          of_q[j] = ToFloat(shared.q[m][threadIdx.x + j * TX]);
          of_grad[j] = ToFloat(shared.grad[m][threadIdx.x + j * TX]);
        }
#pragma unroll
        for (int i = 0; i < kKeyRows; ++i) {
          const float weight = shared.p[m][threadIdx.y + i * TY], ds = shared.ds[m][threadIdx.y + i * TY];
#pragma unroll
          for (int j = 0; j < kColumns; ++j) {
            key_sums[i][j] += ds * of_q[j];
            value_sums[i][j] += weight * of_grad[j];
          }
        }
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kKeyRows; ++i) {
    const int key = key0 + threadIdx.y + i * TY;
    if (key >= p.k_length) continue;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const long long at =
          k_first + static_cast<long long>(key) * p.kv_heads * D + threadIdx.x + j * TX;
      dk[at] = __float2bfloat16(key_sums[i][j]);
      dv[at] = __float2bfloat16(value_sums[i][j]);
    }
  }
}
