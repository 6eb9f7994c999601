// SPDX-License-Identifier: Apache-2.0
// Pooled lookup in a batch of embedding tables: LANES threads share a bag and read 16 bytes of a
// row each, where rows are whole numbers of those. They fetch LANES indices (and weights) at a
// time, one each, pass them round, and keep UNROLL rows in flight; rows are added in the order of
// their indices.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float ToFloat(float value) { return value; }
__device__ __forceinline__ float ToFloat(__half value) { return __half2float(value); }

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T values[N];
};

// Of one bag, with N columns a thread. The threads of a bag stay together.
template <int N, typename T, typename I>
__device__ __forceinline__ void Pool(const T* table, const I* indices, const float* weights,
                                     float* out, int width, long long start, long long end,
                                     float scale, int lane, unsigned mask) {
  for (int first = 0; first < width; first += LANES * N) {
    const int col = first + lane * N;
    const bool mine = col < width;
    const T* column = table + (mine ? col : 0);
    float sums[N];
#pragma unroll
    for (int k = 0; k < N; ++k) sums[k] = 0.0f;
    for (long long base = start; base < end; base += LANES) {
      const bool has = base + lane < end;
      const int index = has ? static_cast<int>(indices[base + lane]) : 0;
      const float weight = has && weights != nullptr ? weights[base + lane] : 1.0f;
      const int count = end - base < LANES ? static_cast<int>(end - base) : LANES;
      for (int at = 0; at < count; at += UNROLL) {
        Pack<T, N> rows[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
          const int row = __shfl_sync(mask, index, at + u < count ? at + u : at, LANES);
          if (mine)
            rows[u] =
                *reinterpret_cast<const Pack<T, N>*>(column + static_cast<long long>(row) * width);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
          const float factor = __shfl_sync(mask, weight, at + u < count ? at + u : at, LANES);
          if (!mine || at + u >= count) continue;
#pragma unroll
          for (int k = 0; k < N; ++k) sums[k] += factor * ToFloat(rows[u].values[k]);
        }
      }
    }
    if (!mine) continue;
#pragma unroll
    for (int k = 0; k < N; k += 4) {
      Pack<float, 4> four;
#pragma unroll
      for (int i = 0; i < 4; ++i) four.values[i] = sums[k + i] * scale;
      *reinterpret_cast<Pack<float, 4>*>(out + col + k) = four;
    }
  }
}

template <typename T, typename I>
__global__ void __launch_bounds__(BLOCK)
    tbe_pool(const T* weights, const long long* weights_offsets, const int* column_offsets,
             const I* indices, const I* offsets, const float* sample_weights, float* out,
             int tables, int batch, int columns, int mean) {
  constexpr int kWide = 16 / static_cast<int>(sizeof(T));
  const long long bag = static_cast<long long>(blockIdx.x) * (BLOCK / LANES) + threadIdx.x / LANES;
  if (bag >= static_cast<long long>(tables) * batch) return;  // All threads of the bag.
  const int lane = threadIdx.x % LANES;
  const unsigned mask = (0xffffffffu >> (32 - LANES)) << (threadIdx.x % 32 / LANES * LANES);
  const int table = static_cast<int>(bag / batch);
  const long long sample = bag - static_cast<long long>(table) * batch;
  const long long start = offsets[bag], end = offsets[bag + 1];
  const float scale = mean != 0 && end > start ? 1.0f / static_cast<float>(end - start) : 1.0f;
  const int width = column_offsets[table + 1] - column_offsets[table];
  const T* rows = weights + weights_offsets[table];
  float* result = out + sample * columns + column_offsets[table];
  if (width % kWide == 0 && weights_offsets[table] % kWide == 0) {
    Pool<kWide>(rows, indices, sample_weights, result, width, start, end, scale, lane, mask);
  } else {
    Pool<4>(rows, indices, sample_weights, result, width, start, end, scale, lane, mask);
  }
}
