// SPDX-License-Identifier: Apache-2.0
// Row selection for a group of matrices of different widths in one launch: out[g][i] = in[g][indices[g][i]].
// The work is cut into pieces of one row by 32 columns; 32 / VEC threads move a piece, each group of threads
// takes every so many pieces in turn. A piece's matrix is found by a search in the offsets of the column
// tiles. Narrow or unaligned matrices are moved element by element.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T values[N]; };

constexpr int kTile = 32;             // Columns of a piece.
constexpr int kLanes = kTile / VEC;   // Threads that move one.

__device__ __forceinline__ bool Aligned(const void* pointer, int bytes) {
  return reinterpret_cast<unsigned long long>(pointer) % bytes == 0;
}

// The matrix whose column tiles hold the tile number `tile` of all.
__device__ __forceinline__ int FindMember(const int* tile_offsets, int members, long long tile) {
  int low = 0, high = members;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (tile_offsets[middle] <= tile) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

template <typename T, typename I>
__global__ void __launch_bounds__(BLOCK)
    group_index_select(const T* const* in, const I* const* indices, T* const* out, const int* widths,
                       const int* tile_offsets, int members, int rows) {
  const int lane = threadIdx.x % kLanes;
  const long long pieces = static_cast<long long>(tile_offsets[members]) * rows;
  const long long groups = static_cast<long long>(gridDim.x) * (BLOCK / kLanes);
  for (long long piece = static_cast<long long>(blockIdx.x) * (BLOCK / kLanes) + threadIdx.x / kLanes;
       piece < pieces; piece += groups) {
    // Members follow one another; within one, rows do, and within a row, tiles.
    const int member = FindMember(tile_offsets, members, piece / rows);
    const int tiles = tile_offsets[member + 1] - tile_offsets[member];
    const long long within = piece - static_cast<long long>(tile_offsets[member]) * rows;
    const long long row = within / tiles;
    const int width = widths[member];
    const int col = static_cast<int>(within % tiles) * kTile;
    const long long from_row = indices[member][row];
    const T* from = in[member] + from_row * width;
    T* to = out[member] + row * width;
    if (width % VEC == 0 && Aligned(in[member], sizeof(T) * VEC) && Aligned(out[member], sizeof(T) * VEC)) {
      const int at = col + lane * VEC;
      if (at < width) {
        *reinterpret_cast<Pack<T, VEC>*>(to + at) = *reinterpret_cast<const Pack<T, VEC>*>(from + at);
      }
    } else {
      for (int at = col + lane; at < col + kTile && at < width; at += kLanes) to[at] = from[at];
    }
  }
}
