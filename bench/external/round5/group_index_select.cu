// SPDX-License-Identifier: Apache-2.0
// Row selection for a group of matrices: a block copies ROWS selected rows of one matrix, which lie
// together in the result. Its threads take the packs one after another, UNROLL of them in flight,
// and count rows and columns on instead of dividing; packs are as wide as the matrix's rows allow.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// `width` packs a row.
template <typename P, typename I>
__device__ __forceinline__ void Select(const P* in, const I* indices, P* out, int rows, int width) {
  constexpr int kTogether = sizeof(P) >= 8 || UNROLL == 8 ? UNROLL : 2 * UNROLL;
  const int count = rows * width;
  const int step_row = BLOCK / width, step = BLOCK - step_row * width;
  int row = static_cast<int>(threadIdx.x) / width,
      col = static_cast<int>(threadIdx.x) - row * width;
  for (int first = threadIdx.x; first < count; first += kTogether * BLOCK) {
    int from[kTogether];
    P packs[kTogether];
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
      // Matrices have up to 2^27 elements.
      from[u] = col;
      if (first + u * BLOCK < count) from[u] += static_cast<int>(__ldg(indices + row)) * width;
      row += step_row;
      col += step;
      if (col >= width) {
        col -= width;
        ++row;
      }
    }
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
      if (first + u * BLOCK < count) packs[u] = __ldg(in + from[u]);
    }
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
      if (first + u * BLOCK < count) out[first + u * BLOCK] = packs[u];
    }
  }
}

// The same for odd numbers of 16-bit values: they are read one by one and written in pairs.
template <typename I>
__device__ __forceinline__ void SelectPairs(const unsigned short* in, const I* indices,
                                            unsigned short* out, int rows, int width) {
  constexpr int kTogether = UNROLL == 8 ? 8 : 2 * UNROLL, kStep = 2 * BLOCK;
  const int count = rows * width;
  const int step_row = kStep / width, step = kStep - step_row * width;
  int row = 2 * static_cast<int>(threadIdx.x) / width;
  int col = 2 * static_cast<int>(threadIdx.x) - row * width;
  for (int first = 2 * threadIdx.x; first < count; first += kTogether * kStep) {
    int low[kTogether], high[kTogether];
    unsigned pairs[kTogether];
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
      const int at = first + u * kStep;
      low[u] = high[u] = 0;
      if (at < count) {
        low[u] = static_cast<int>(__ldg(indices + row)) * width + col;
        high[u] = low[u] + 1;
        if (col + 1 == width)
          high[u] = at + 1 < count ? static_cast<int>(__ldg(indices + row + 1)) * width : low[u];
      }
      row += step_row;
      col += step;
      if (col >= width) {
        col -= width;
        ++row;
      }
    }
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
      if (first + u * kStep < count)
        pairs[u] = __ldg(in + low[u]) | static_cast<unsigned>(__ldg(in + high[u])) << 16;
    }
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
      const int at = first + u * kStep;
      if (at + 1 < count) {
        *reinterpret_cast<unsigned*>(out + at) = pairs[u];
      } else if (at < count) {
        out[at] = static_cast<unsigned short>(pairs[u]);
      }
    }
  }
}

template <typename P, typename T, typename I>
__device__ __forceinline__ void SelectBytes(const T* in, const I* indices, T* out, int rows,
                                            int width) {
  Select(reinterpret_cast<const P*>(in), indices, reinterpret_cast<P*>(out), rows,
         width * static_cast<int>(sizeof(T)) / static_cast<int>(sizeof(P)));
}

template <typename T, typename I>
__global__ void __launch_bounds__(BLOCK, 1024 / BLOCK)
    group_select_rows(const T* const* in, const I* const* indices, T* const* out, const int* widths,
                      int rows) {
  const int chunks = (rows + ROWS - 1) / ROWS, member = blockIdx.x / chunks;
  const int row = (blockIdx.x - member * chunks) * ROWS, width = widths[member];
  const int these = rows - row < ROWS ? rows - row : ROWS;
  const T* from = in[member];
  T* to = out[member];
  const I* index = indices[member] + row;
  // What the matrices' addresses and the bytes of a row are multiples of.
  const unsigned long long bits = reinterpret_cast<unsigned long long>(from) |
                                  reinterpret_cast<unsigned long long>(to) |
                                  static_cast<unsigned long long>(width * sizeof(T));
  to += static_cast<long long>(row) * width;
  if (bits % 16 == 0) {
    SelectBytes<uint4>(from, index, to, these, width);
  } else if (bits % 8 == 0) {
    SelectBytes<uint2>(from, index, to, these, width);
  } else if (bits % 4 == 0) {
    SelectBytes<unsigned>(from, index, to, these, width);
  } else if (reinterpret_cast<unsigned long long>(to) % 4 == 0) {
    SelectPairs(reinterpret_cast<const unsigned short*>(from), index,
                reinterpret_cast<unsigned short*>(to), these, width);
  } else {
    SelectBytes<unsigned short>(from, index, to, these, width);
  }
}
