// SPDX-License-Identifier: Apache-2.0
// Gradient of the grouped row selection without an atomic addition for each element: the
// occurrences of each matrix are listed by the row that they add to, and a warp adds CHUNK of them
// up, 128 columns at a time. A row whose occurrences lie in one chunk is stored; only rows that
// several chunks share, which are zeroed before as those without occurrences are, are added to
// atomically.
#include <cuda_runtime.h>

struct Starts {
  int at[65];
};

// `table`: where each matrix's rows start among those of all.
extern "C" __global__ void __launch_bounds__(256)
    group_add_clear(Starts starts, int* table, int* counts, int* cursors, int members,
                    int heights) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < heights) counts[i] = 0;
  if (i < members) cursors[i] = 0;
#pragma unroll
  for (int k = 0; k < 65; ++k) {
    if (i == k && k <= members) table[k] = starts.at[k];
  }
}

// ranks: of an occurrence among those of its row.
template <typename I>
__global__ void __launch_bounds__(256)
    group_add_count(const I* const* indices, const int* table, int* counts, int* ranks, int rows) {
  const int blocks = (rows + 255) / 256, member = blockIdx.x / blocks;
  const int i = (blockIdx.x - member * blocks) * 256 + threadIdx.x;
  if (i >= rows) return;
  const int to = table[member] + static_cast<int>(indices[member][i]);
  ranks[static_cast<long long>(member) * rows + i] = atomicAdd(counts + to, 1);
}

__device__ __forceinline__ bool Aligned(const void* pointer) {
  return reinterpret_cast<unsigned long long>(pointer) % 16 == 0;
}

// Turns counts into places in the matrix's list, and zeroes the rows that need it.
extern "C" __global__ void __launch_bounds__(256)
    group_add_place(const int* table, int* counts, int* cursors, float* const* grad_in,
                    const int* widths, int members) {
  __shared__ int totals[8], first;
  __shared__ int cleared[256];
  const int blocks = gridDim.x / members, member = blockIdx.x / blocks;
  const int top = (blockIdx.x - member * blocks) * 256, height = table[member + 1] - table[member];
  if (top >= height) return;
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  int* own = counts + table[member] + top + tid;
  const int count = top + tid < height ? *own : 0;
  int place = count;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int below = __shfl_up_sync(0xffffffffu, place, offset);
    if (lane >= offset) place += below;
  }
  if (lane == 31) totals[warp] = place;
  __syncthreads();
  int before = 0, all = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (i < warp) before += totals[i];
    all += totals[i];
  }
  if (tid == 0) first = atomicAdd(cursors + member, all);
  __syncthreads();
  place += first + before - count;
  if (top + tid < height) *own = place;
  cleared[tid] = top + tid < height && (count == 0 || place / CHUNK != (place + count - 1) / CHUNK);
  __syncthreads();
  const int width = widths[member];
  float* rows = grad_in[member] + static_cast<long long>(top) * width;
  const bool wide = width % 4 == 0 && Aligned(rows);
  for (int i = warp; i < 256; i += 8) {
    if (cleared[i] == 0) continue;
    float* row = rows + static_cast<long long>(i) * width;
    if (wide) {
      for (int c = lane; c < width / 4; c += 32)
        reinterpret_cast<float4*>(row)[c] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    } else {
      for (int c = lane; c < width; c += 32) row[c] = 0.0f;
    }
  }
}

// list: (row of the result, occurrence).
template <typename I>
__global__ void __launch_bounds__(256)
    group_add_list(const I* const* indices, const int* table, const int* places, const int* ranks,
                   int2* list, int rows) {
  const int blocks = (rows + 255) / 256, member = blockIdx.x / blocks;
  const int i = (blockIdx.x - member * blocks) * 256 + threadIdx.x;
  if (i >= rows) return;
  const long long start = static_cast<long long>(member) * rows;
  const int to = static_cast<int>(indices[member][i]);
  list[start + places[table[member] + to] + ranks[start + i]] = make_int2(to, i);
}

struct Four {
  float at[4];
};

__device__ __forceinline__ void Add(float* to, const Four& four) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  atomicAdd(reinterpret_cast<float4*>(to),
            make_float4(four.at[0], four.at[1], four.at[2], four.at[3]));
#else
  for (int k = 0; k < 4; ++k) atomicAdd(to + k, four.at[k]);
#endif
}

// A lane has four columns: neighbours (kWide), or every 32nd.
template <bool kWide>
__device__ __forceinline__ void AddChunk(const float* from, const int2* list, float* to, int width,
                                         int start, int rows, int col) {
  constexpr int kNext = kWide ? 1 : 32, kTogether = kWide ? UNROLL : UNROLL / 2;
  const int lane = threadIdx.x % 32, count = rows - start < CHUNK ? rows - start : CHUNK;
  const int2 mine = lane < count ? list[start + lane] : make_int2(-1, 0);
  const int before = start > 0 ? list[start - 1].x : -1;
  const int after = start + count < rows ? list[start + count].x : -1;
  int row = __shfl_sync(0xffffffffu, mine.x, 0);
  bool shared = row == before;
  Four sums = {};
  const auto flush = [&](bool add) {
    float* target = to + static_cast<long long>(row) * width + col;
    if constexpr (kWide) {
      if (col >= width) return;
      if (add) {
        Add(target, sums);
      } else {
        *reinterpret_cast<float4*>(target) =
            make_float4(sums.at[0], sums.at[1], sums.at[2], sums.at[3]);
      }
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (col + k * kNext >= width) continue;
        if (add) {
          atomicAdd(target + k * kNext, sums.at[k]);
        } else {
          target[k * kNext] = sums.at[k];
        }
      }
    }
  };
  for (int first = 0; first < count; first += kTogether) {
    Four terms[kTogether];
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
      const int at = __shfl_sync(0xffffffffu, mine.y, first + u < count ? first + u : first);
      const float* term = from + static_cast<long long>(at) * width + col;
      if constexpr (kWide) {
        if (col >= width) continue;
        const float4 four = __ldg(reinterpret_cast<const float4*>(term));
        terms[u] = Four{{four.x, four.y, four.z, four.w}};
      } else {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          if (col + k * kNext < width) terms[u].at[k] = __ldg(term + k * kNext);
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kTogether; ++u) {
      if (first + u >= count) break;
      const int next = __shfl_sync(0xffffffffu, mine.x, first + u);
      if (next != row) {
        flush(shared);
        row = next;
        shared = false;
        sums = Four{};
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) sums.at[k] += terms[u].at[k];
    }
  }
  flush(shared || row == after);
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    group_add_chunks(const float* const* grad_out, const int2* list, float* const* grad_in,
                     const int* widths, int members, int rows, int tiles) {
  // The tiles of some chunks follow one another, then the chunks of a matrix.
  const int each = CHUNK * WARPS, blocks = (rows + each - 1) / each;
  const int tile = blockIdx.x % tiles, block = blockIdx.x / tiles, member = block / blocks;
  const int width = widths[member], lane = threadIdx.x % 32;
  const int start = (block - member * blocks) * each + threadIdx.x / 32 * CHUNK;
  if (tile * 128 >= width || start >= rows) return;
  const float* from = grad_out[member];
  float* to = grad_in[member];
  const int2* own = list + static_cast<long long>(member) * rows;
  if (width % 4 == 0 && Aligned(from) && Aligned(to)) {
    AddChunk<true>(from, own, to, width, start, rows, tile * 128 + lane * 4);
  } else {
    AddChunk<false>(from, own, to, width, start, rows, tile * 128 + lane);
  }
}
