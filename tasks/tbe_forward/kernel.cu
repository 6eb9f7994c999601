// SPDX-License-Identifier: Apache-2.0
// Pooled lookup in a batch of embedding tables: LANES threads share a bag (table, sample) and keep VEC columns
// each in fp32; rows are added in the order of their indices, UNROLL of them read ahead. Wider tables take
// several turns over the bag.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float ToFloat(float value) { return value; }
__device__ __forceinline__ float ToFloat(__half value) { return __half2float(value); }

template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T values[N]; };

constexpr int kWide = LANES * VEC;  // Columns of a turn.

__device__ __forceinline__ bool Aligned(const void* pointer, int bytes) {
  return reinterpret_cast<unsigned long long>(pointer) % bytes == 0;
}

template <int N, bool kAligned, typename T>
__device__ __forceinline__ Pack<T, N> Load(const T* from) {
  if (kAligned) return *reinterpret_cast<const Pack<T, N>*>(from);
  Pack<T, N> pack;
#pragma unroll
  for (int k = 0; k < N; ++k) pack.values[k] = from[k];
  return pack;
}

// The sum of a bag's rows at N columns. `table` points at the first of them.
template <int N, bool kAligned, typename T, typename I>
__device__ __forceinline__ void SumBag(const T* table, const I* indices, const float* weights, int width,
                                       long long start, long long end, float (&sums)[N]) {
  long long i = start;
  for (; i + UNROLL <= end; i += UNROLL) {
    Pack<T, N> rows[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      rows[u] = Load<N, kAligned>(table + static_cast<long long>(indices[i + u]) * width);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const float weight = weights == nullptr ? 1.0f : weights[i + u];
#pragma unroll
      for (int k = 0; k < N; ++k) sums[k] += weight * ToFloat(rows[u].values[k]);
    }
  }
  for (; i < end; ++i) {
    const Pack<T, N> row = Load<N, kAligned>(table + static_cast<long long>(indices[i]) * width);
    const float weight = weights == nullptr ? 1.0f : weights[i];
#pragma unroll
    for (int k = 0; k < N; ++k) sums[k] += weight * ToFloat(row.values[k]);
  }
}

// Widths are multiples of 4, and so of VEC.
template <bool kAligned, typename T, typename I>
__device__ __forceinline__ void Pool(const T* table, const I* indices, const float* weights, float* out,
                                     int width, long long start, long long end, float scale) {
  for (int col = threadIdx.x % LANES * VEC; col < width; col += kWide) {
    float sums[VEC] = {};
    SumBag<VEC, kAligned>(table + col, indices, weights, width, start, end, sums);
    Pack<float, VEC> result;
#pragma unroll
    for (int k = 0; k < VEC; ++k) result.values[k] = sums[k] * scale;
    if (kAligned) {
      *reinterpret_cast<Pack<float, VEC>*>(out + col) = result;
    } else {
#pragma unroll
      for (int k = 0; k < VEC; ++k) out[col + k] = result.values[k];
    }
  }
}

template <typename T, typename I>
__global__ void __launch_bounds__(BLOCK)
    tbe_forward(const T* weights, const long long* weights_offsets, const int* column_offsets,
                const I* indices, const I* offsets, const float* sample_weights, float* out, int tables,
                int batch, int columns, int mean) {
  const long long bag = static_cast<long long>(blockIdx.x) * (BLOCK / LANES) + threadIdx.x / LANES;
  if (bag >= static_cast<long long>(tables) * batch) return;
  const int table = static_cast<int>(bag / batch);
  const long long sample = bag - static_cast<long long>(table) * batch;
  const long long start = offsets[bag], end = offsets[bag + 1];
  const float scale = mean != 0 && end > start ? 1.0f / static_cast<float>(end - start) : 1.0f;
  const int width = column_offsets[table + 1] - column_offsets[table];
  const T* rows = weights + weights_offsets[table];
  float* result = out + sample * columns + column_offsets[table];
  if (Aligned(weights, sizeof(T) * VEC) && Aligned(out, sizeof(float) * VEC)) {
    Pool<true>(rows, indices, sample_weights, result, width, start, end, scale);
  } else {
    Pool<false>(rows, indices, sample_weights, result, width, start, end, scale);
  }
}
