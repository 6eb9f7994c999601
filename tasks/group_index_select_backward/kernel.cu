// SPDX-License-Identifier: Apache-2.0
// Gradient of the grouped row selection: grad_in[g][indices[g][i]] += grad_out[g][i] over zeroed results,
// by one atomic addition for each element. The work is cut into pieces of ROWS rows by 32 columns; LANES
// threads take a piece. With MERGE a thread keeps a sum while the index stays the same.
#include <cuda_runtime.h>

constexpr int kTile = 32;  // Columns of a piece.

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

// One column of the rows [first, last).
template <typename I>
__device__ __forceinline__ void AddColumn(const float* from, const I* indices, float* to, int width,
                                          int first, int last) {
  if (!MERGE) {
    for (int row = first; row < last; ++row) {
      atomicAdd(to + static_cast<long long>(indices[row]) * width,
                from[static_cast<long long>(row) * width]);
    }
    return;
  }
  float sum = 0;
  for (int row = first; row < last; ++row) {
    sum += from[static_cast<long long>(row) * width];
    if (row + 1 < last && indices[row + 1] == indices[row]) continue;
    atomicAdd(to + static_cast<long long>(indices[row]) * width, sum);
    sum = 0;
  }
}

template <typename I>
__global__ void __launch_bounds__(BLOCK)
    group_index_add(const float* const* grad_out, const I* const* indices, float* const* grad_in,
                    const int* widths, const int* tile_offsets, int members, int rows) {
  const int lane = threadIdx.x % LANES;
  const int row_pieces = (rows + ROWS - 1) / ROWS;
  const long long piece = static_cast<long long>(blockIdx.x) * (BLOCK / LANES) + threadIdx.x / LANES;
  if (piece >= static_cast<long long>(tile_offsets[members]) * row_pieces) return;
  // Members follow one another; within one, rows do, and within a row, tiles.
  const int member = FindMember(tile_offsets, members, piece / row_pieces);
  const int tiles = tile_offsets[member + 1] - tile_offsets[member];
  const long long within = piece - static_cast<long long>(tile_offsets[member]) * row_pieces;
  const int first = static_cast<int>(within / tiles) * ROWS, col = static_cast<int>(within % tiles) * kTile;
  const int last = first + ROWS < rows ? first + ROWS : rows;
  const int width = widths[member];
  for (int at = col + lane; at < col + kTile && at < width; at += LANES) {
    AddColumn<I>(grad_out[member] + at, indices[member], grad_in[member] + at, width, first, last);
  }
}
