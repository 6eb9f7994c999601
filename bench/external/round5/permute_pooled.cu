// SPDX-License-Identifier: Apache-2.0
// Joins or splits the column blocks of an exchange: a thread block moves ROWS rows of one rank's
// block, which lie together on the ranks' side. Its threads take the packs one after another,
// UNROLL of them in flight, and count rows and columns on instead of dividing.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

// Copies `rows` rows of `width` packs between `joined`, where they lie together, and `apart`, where
// a row starts every `pitch` packs.
template <bool kSplit, typename P>
__device__ __forceinline__ void Move(const P* from, P* to, int rows, int width, int pitch) {
  const int count = rows * width;
  const int step_row = BLOCK / width, step = BLOCK - step_row * width;
  int row = static_cast<int>(threadIdx.x) / width,
      col = static_cast<int>(threadIdx.x) - row * width;
  for (int first = threadIdx.x; first < count; first += UNROLL * BLOCK) {
    P packs[UNROLL];
    int apart[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      apart[u] = row * pitch + col;
      if (first + u * BLOCK < count)
        packs[u] = __ldg(from + (kSplit ? apart[u] : first + u * BLOCK));
      row += step_row;
      col += step;
      if (col >= width) {
        col -= width;
        ++row;
      }
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      if (first + u * BLOCK < count) to[kSplit ? first + u * BLOCK : apart[u]] = packs[u];
    }
  }
}

template <typename P, typename T>
__device__ __forceinline__ void MoveBytes(const T* from, T* to, long long joined, long long apart,
                                          int rows, int width, int total, int split) {
  constexpr int kEach = static_cast<int>(sizeof(P) / sizeof(T));
  if (split != 0) {
    Move<true>(reinterpret_cast<const P*>(from + apart), reinterpret_cast<P*>(to + joined), rows,
               width / kEach, total / kEach);
  } else {
    Move<false>(reinterpret_cast<const P*>(from + joined), reinterpret_cast<P*>(to + apart), rows,
                width / kEach, total / kEach);
  }
}

__device__ __forceinline__ bool Aligned(const void* pointer, int bytes) {
  return reinterpret_cast<unsigned long long>(pointer) % bytes == 0;
}

template <int kBytes>
struct OfSize {
  using Type = unsigned;
};
template <>
struct OfSize<2> {
  using Type = unsigned short;
};

// `unit` divides every width. Blocks of all ranks for some rows follow one another.
template <typename T>
__global__ void __launch_bounds__(BLOCK)
    permute_rows(const T* from, T* to, const int* offsets, int ranks, int batch, int total,
                 int split, int unit) {
  const int chunk = blockIdx.x / ranks, rank = blockIdx.x - chunk * ranks;
  const int row = chunk * ROWS, rows = batch - row < ROWS ? batch - row : ROWS;
  const int start = offsets[rank], width = offsets[rank + 1] - start;
  if (width == 0) return;
  const long long joined =
      static_cast<long long>(start) * batch + static_cast<long long>(row) * width;
  const long long apart = static_cast<long long>(row) * total + start;
  const int bytes = unit * static_cast<int>(sizeof(T));
  if (bytes % 16 == 0 && Aligned(from, 16) && Aligned(to, 16)) {
    MoveBytes<uint4>(from, to, joined, apart, rows, width, total, split);
  } else if (bytes % 8 == 0 && Aligned(from, 8) && Aligned(to, 8)) {
    MoveBytes<uint2>(from, to, joined, apart, rows, width, total, split);
  } else {
    MoveBytes<typename OfSize<sizeof(T)>::Type>(from, to, joined, apart, rows, width, total, split);
  }
}
