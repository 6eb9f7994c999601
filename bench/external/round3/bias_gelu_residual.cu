// SPDX-License-Identifier: Apache-2.0
// Bias, GELU (the form with erf), dropout and residual in one pass. Where rows are whole packs of VEC
// elements, a thread keeps its columns' bias in registers and walks down TURNS rows, loads first. Else
// the matrix is read flat: a pack then spans the end of a row, and only the bias cares. It comes from a
// table in shared memory that goes on with the next row's beginning, hence without a wrap per element.
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

template <typename T, int N> struct alignas(sizeof(T) * N <= 16 ? sizeof(T) * N : 16) Pack {
  T values[N];
};

__device__ __forceinline__ bool Aligned(const void* pointer) {
  return reinterpret_cast<unsigned long long>(pointer) % 16 == 0;
}

// Pack number i: one access, or one for each element.
template <int N, bool kWide, typename T>
__device__ __forceinline__ Pack<T, N> Load(const T* from, long long i) {
  if (kWide) return reinterpret_cast<const Pack<T, N>*>(from)[i];
  Pack<T, N> pack;
#pragma unroll
  for (int k = 0; k < N; ++k) pack.values[k] = from[i * N + k];
  return pack;
}

template <int N, bool kWide, typename T>
__device__ __forceinline__ void Store(T* to, long long i, const Pack<T, N>& pack) {
  if (kWide) {
    reinterpret_cast<Pack<T, N>*>(to)[i] = pack;
    return;
  }
#pragma unroll
  for (int k = 0; k < N; ++k) to[i * N + k] = pack.values[k];
}

// The normal distribution function for results of 16 bits: within 1e-7, in half of erff's instructions.
__device__ __forceinline__ float Phi(float z) {
  const float a = fabsf(z);
#ifdef FETTLE_TARGET_CPU
  const float t = 1.0f / (1.0f + 0.23164190f * a);
  const float tail = expf(-0.5f * a * a);
#else
  const float t = __fdividef(1.0f, 1.0f + 0.23164190f * a);
  const float tail = __expf(-0.5f * a * a);
#endif
  float sum = 0.53070271f * t - 0.72657602f;
  sum = sum * t + 0.71070688f;
  sum = sum * t - 0.14224837f;
  sum = sum * t + 0.12741480f;
  const float above = sum * t * tail;
  return z < 0.0f ? above : 1.0f - above;
}

template <typename T>
__device__ __forceinline__ float Chain(float x, float bias, bool keep, float residual, float scale) {
  const float z = x + bias;
  const float active =
      sizeof(T) == 2 ? z * Phi(z) : 0.5f * z * (1.0f + erff(z * 0.70710678f));
  return residual + (keep ? active * scale : 0.0f);
}

template <int N, bool kWide, typename T>
__device__ __forceinline__ void Rows(const T* x, const T* bias, const unsigned char* keep,
                                     const T* residual, T* y, int rows, int cols, float scale) {
  const int packs = cols / N, col = blockIdx.y * BLOCK + threadIdx.x;
  if (col >= packs) return;
  float added[N];
  const Pack<T, N> packed = Load<N, kWide>(bias, col);
#pragma unroll
  for (int k = 0; k < N; ++k) added[k] = ToFloat(packed.values[k]);
  const int first = blockIdx.x * (TURNS * UNROLL);
#pragma unroll 1
  for (int turn = 0; turn < TURNS; ++turn) {
    Pack<T, N> v[UNROLL], r[UNROLL];
    Pack<unsigned char, N> kept[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const int row = first + turn * UNROLL + u;
      if (row < rows) {
        const long long i = static_cast<long long>(row) * packs + col;
        v[u] = Load<N, kWide>(x, i);
        r[u] = Load<N, kWide>(residual, i);
        kept[u] = Load<N, kWide>(keep, i);
      }
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const int row = first + turn * UNROLL + u;
      if (row < rows) {
        Pack<T, N> out;
#pragma unroll
        for (int k = 0; k < N; ++k) {
          out.values[k] = FromFloat<T>(Chain<T>(ToFloat(v[u].values[k]), added[k], kept[u].values[k] != 0,
                                             ToFloat(r[u].values[k]), scale));
        }
        Store<N, kWide>(y, static_cast<long long>(row) * packs + col, out);
      }
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(BLOCK)
    bias_gelu_rows(const T* x, const T* bias, const unsigned char* keep, const T* residual, T* y,
                   int rows, int cols, float scale) {
  if (Aligned(x) && Aligned(bias) && Aligned(keep) && Aligned(residual) && Aligned(y)) {
    Rows<VEC, true>(x, bias, keep, residual, y, rows, cols, scale);
  } else {
    Rows<VEC, false>(x, bias, keep, residual, y, rows, cols, scale);
  }
}

// An enumerator, because run-time compilation makes a variable of the module of a constant at this level.
enum : int { kFlat = 8 };

template <bool kWide, typename T>
__device__ __forceinline__ void Flat(const T* x, const T* bias, const unsigned char* keep,
                                     const T* residual, T* y, unsigned count, unsigned cols, float scale,
                                     T* table) {
  const unsigned first = blockIdx.x * (BLOCK * PACKS) + threadIdx.x;
  Pack<T, kFlat> v[PACKS], r[PACKS];
  Pack<unsigned char, kFlat> kept[PACKS];
#pragma unroll
  for (int u = 0; u < PACKS; ++u) {
    const unsigned i = first + u * BLOCK;
    if ((i + 1) * kFlat <= count) {
      v[u] = Load<kFlat, kWide>(x, i);
      r[u] = Load<kFlat, kWide>(residual, i);
      kept[u] = Load<kFlat, kWide>(keep, i);
    }
  }
  for (unsigned at = threadIdx.x; at < cols + kFlat; at += BLOCK) table[at] = bias[at % cols];
  __syncthreads();
#pragma unroll
  for (int u = 0; u < PACKS; ++u) {
    const unsigned i = first + u * BLOCK, begin = i * kFlat;
    const T* added = table + begin % cols;
    if (begin + kFlat <= count) {
      Pack<T, kFlat> out;
#pragma unroll
      for (int k = 0; k < kFlat; ++k) {
        out.values[k] = FromFloat<T>(Chain<T>(ToFloat(v[u].values[k]), ToFloat(added[k]),
                                              kept[u].values[k] != 0, ToFloat(r[u].values[k]), scale));
      }
      Store<kFlat, kWide>(y, i, out);
    } else {
      for (unsigned k = 0; begin + k < count; ++k) {
        y[begin + k] = FromFloat<T>(Chain<T>(ToFloat(x[begin + k]), ToFloat(added[k]),
                                             keep[begin + k] != 0, ToFloat(residual[begin + k]), scale));
      }
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(BLOCK)
    bias_gelu_flat(const T* x, const T* bias, const unsigned char* keep, const T* residual, T* y,
                   int rows, int cols, float scale) {
  extern __shared__ Pack<float, 4> shared_table[];
  T* table = reinterpret_cast<T*>(shared_table);
  const unsigned count = static_cast<unsigned>(rows) * static_cast<unsigned>(cols);
  if (Aligned(x) && Aligned(keep) && Aligned(residual) && Aligned(y)) {
    Flat<true>(x, bias, keep, residual, y, count, cols, scale, table);
  } else {
    Flat<false>(x, bias, keep, residual, y, count, cols, scale, table);
  }
}

// Rows too wide for a table in each block, and not whole packs: an element at a time.
template <typename T>
__global__ void __launch_bounds__(BLOCK)
    bias_gelu_wide(const T* x, const T* bias, const unsigned char* keep, const T* residual, T* y,
                   int rows, int cols, float scale) {
  const int col = blockIdx.y * BLOCK + threadIdx.x;
  if (col >= cols) return;
  const float added = ToFloat(bias[col]);
#pragma unroll 8
  for (int u = 0; u < 8; ++u) {
    const int row = blockIdx.x * 8 + u;
    if (row >= rows) return;
    const long long at = static_cast<long long>(row) * cols + col;
    y[at] = FromFloat<T>(Chain<T>(ToFloat(x[at]), added, keep[at] != 0, ToFloat(residual[at]), scale));
  }
}
