// SPDX-License-Identifier: Apache-2.0
// HSTU attention: O = P V with P = mask * silu(alpha Q K^T) / max_len over jagged sequences. A block computes
// BM rows of one head of one sequence: over tiles of BN keys it forms P in shared memory, each thread
// BM / TY x BN / TX of it, and adds P V to its BM / TY x V / TX results, all in fp32. With SKIP tiles of keys
// that the mask leaves out are passed over.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }

constexpr int kRows = BM / TY, kKeys = BN / TX, kValues = V / TX;
constexpr int kThreads = TX * TY;

// What the mask of one sequence depends on. Positions of the leading contextual entries count as 0, those
// of the targets at the end as one: targets see history and themselves, not each other.
struct Mask {
  int length, contextual, targets, window, full;
  int last;  // The largest position.

  __device__ Mask(int length_, int contextual_, int targets_, int window_, int full_)
      : length(length_), contextual(contextual_), targets(targets_), window(window_), full(full_) {
    last = (contextual == 0 ? length : length - contextual + 1) - targets;
  }
  __device__ int Position(int index) const {
    int position = index;
    if (contextual > 0) position = index - contextual + 1 > 0 ? index - contextual + 1 : 0;
    return position < last ? position : last;
  }
  __device__ bool operator()(int row, int key) const {
    const int r = Position(row), q = Position(key), distance = r - q;
    bool seen = row == key || distance > 0;
    if (window > 0) seen = seen && (distance <= window || (full > 0 && r >= last - full));
    if (contextual > 0) seen = seen || (r == 0 && q < last);
    return seen;
  }
};

struct Shared {
  __nv_bfloat16 q[BM][D + PAD];
  __nv_bfloat16 k[BN][D + PAD];
  __nv_bfloat16 v[BN][V];
  float p[BM][BN + 1];
};

// Rows [first, first + count) of a jagged array [*, heads, width], zeros beyond the sequence.
template <int kCount, int kWidth, int kStride>
__device__ __forceinline__ void Load(__nv_bfloat16 (*to)[kStride], const __nv_bfloat16* from, int first,
                                     int length, int heads, int tid) {
  for (int i = tid; i < kCount * kWidth; i += kThreads) {
    const int row = i / kWidth, col = i % kWidth;
    to[row][col] = first + row < length
                       ? from[static_cast<long long>(first + row) * heads * kWidth + col]
                       : __float2bfloat16(0.0f);
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    hstu_forward(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
                 const long long* offsets, const int* num_targets, __nv_bfloat16* out, int heads, int max_len,
                 int contextual, int window, int full, float alpha) {
  __shared__ Shared shared;
  const int sequence = blockIdx.z, head = blockIdx.y, row0 = blockIdx.x * BM;
  const long long start = offsets[sequence];
  const int length = static_cast<int>(offsets[sequence + 1] - start);
  if (row0 >= length) return;  // The whole block.
  const Mask mask(length, contextual, num_targets == nullptr ? 0 : num_targets[sequence], window, full);
  const int tid = threadIdx.y * TX + threadIdx.x;
  const long long first = start * heads + head;
  Load<BM, D>(shared.q, q + first * D, row0, length, heads, tid);
  float sums[kRows][kValues] = {};
  // No row sees keys behind the block's last row, except for contextual rows, which see all of history.
  const bool causal = contextual == 0 || row0 >= contextual;
  const int end = SKIP && causal && row0 + BM < length ? row0 + BM : length;
  for (int key0 = 0; key0 < end; key0 += BN) {
    __syncthreads();  // The previous tile has been read.
    Load<BN, D>(shared.k, k + first * D, key0, length, heads, tid);
    Load<BN, V>(shared.v, v + first * V, key0, length, heads, tid);
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
        const float score = alpha * scores[i][j];
        const float weight = score / (1.0f + expf(-score)) / static_cast<float>(max_len);
        const bool seen = row < length && key < length && mask(row, key);
        shared.p[threadIdx.y + i * TY][threadIdx.x + j * TX] = seen ? weight : 0.0f;
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
    if (row >= length) continue;
#pragma unroll
    for (int j = 0; j < kValues; ++j) {
      out[(first + static_cast<long long>(row) * heads) * V + threadIdx.x + j * TX] =
          __float2bfloat16(sums[i][j]);
    }
  }
}
