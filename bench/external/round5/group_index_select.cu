// SPDX-License-Identifier: Apache-2.0
// Row selection for a group of matrices: a block copies ROWS selected rows of one matrix, which lie
// together in the result. Its threads take the packs one after another, UNROLL of them in flight, and
// count rows and columns on instead of dividing; packs are as wide as the matrix's rows allow.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// `width` packs a row.
template <typename P, typename I>
__device__ __forceinline__ void Select(const P* in, const I* indices, P* out, int rows, int width) {
  constexpr int kTogether = sizeof(P) >= 8 ? UNROLL : 2 * UNROLL;
  const int count = rows * width;
  const int step_row = BLOCK / width, step = BLOCK - step_row * width;
  int row = static_cast<int>(threadIdx.x) / width, col = static_cast<int>(threadIdx.x) - row * width;
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

template <typename P, typename T, typename I>
__device__ __forceinline__ void SelectBytes(const T* in, const I* indices, T* out, int rows, int width) {
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
  } else {
    SelectBytes<unsigned short>(from, index, to, these, width);
  }
}
