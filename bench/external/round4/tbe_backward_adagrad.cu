// SPDX-License-Identifier: Apache-2.0
// Gradient of the pooled embedding lookup with exact row-wise Adagrad, sorted as in the task's own
// kernel. After that, LANES threads take CHUNK neighbouring occurrences, however long the runs of
// equal rows are. Runs within a chunk are updated at once. Of the others each chunk writes its
// sums, and a block for each such run adds them up: a hot row is spread over the device, and its
// sums are made in the same order each time.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float ToFloat(float value) { return value; }
__device__ __forceinline__ float ToFloat(__half value) { return __half2float(value); }
__device__ __forceinline__ void Put(float* to, float value) { *to = value; }
__device__ __forceinline__ void Put(__half* to, float value) { *to = __float2half(value); }

template <typename T>
struct alignas(sizeof(T) * 4) Four {
  T at[4];
};

// Enumerators, because run-time compilation makes variables of the module of constants at this
// level.
enum : int {
  kRadix = 1 << BITS,
  kTile = SORT_BLOCK * ITEMS,  // Occurrences that a block sorts.
  kMaxWidth = 256,
  kPacks = kMaxWidth / 4 / LANES,  // Packs of four columns per thread, at most.
  kScanThreads = 1024,
  kGroups = BLOCK / LANES,
};

// key: the row's number among all tables; position: where the occurrence stands; bag: which one it
// is in.
template <typename I>
__global__ void __launch_bounds__(BLOCK)
    adagrad_keys(const I* indices, const I* offsets, int* keys, int* positions, int* bags,
                 int bag_count, int batch, int rows) {
  const int bag = blockIdx.x * (BLOCK / LANES) + threadIdx.x / LANES;
  if (bag >= bag_count) return;
  const int first_row = bag / batch * rows;
  const int end = static_cast<int>(offsets[bag + 1]);
  for (int i = static_cast<int>(offsets[bag]) + threadIdx.x % LANES; i < end; i += LANES) {
    keys[i] = first_row + static_cast<int>(indices[i]);
    positions[i] = i;
    bags[i] = bag;
  }
}

__device__ __forceinline__ int Digit(int key, int pass) {
  return key >> (pass * BITS) & (kRadix - 1);
}

// counts[digit][tile] of one pass. Passes read one half of the keys and write the other, in turn.
extern "C" __global__ void __launch_bounds__(SORT_BLOCK)
    adagrad_count(const int* keys, int* counts, int total, int tiles, int pass) {
  __shared__ int bins[kRadix];
  for (int i = threadIdx.x; i < kRadix; i += SORT_BLOCK) bins[i] = 0;
  __syncthreads();
  const int* from = keys + (pass % 2 == 0 ? 0 : total);
  for (int j = 0; j < ITEMS; ++j) {
    const int i = blockIdx.x * kTile + j * SORT_BLOCK + threadIdx.x;
    if (i < total) atomicAdd(bins + Digit(from[i], pass), 1);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kRadix; i += SORT_BLOCK) counts[i * tiles + blockIdx.x] = bins[i];
}

// Sums of all values before one's own, over the threads of a block.
template <int kThreads>
__device__ __forceinline__ int SumBefore(int value, int* sums) {
  sums[threadIdx.x] = value;
  __syncthreads();
  for (int distance = 1; distance < kThreads; distance *= 2) {
    const int other = static_cast<int>(threadIdx.x) >= distance ? sums[threadIdx.x - distance] : 0;
    __syncthreads();
    sums[threadIdx.x] += other;
    __syncthreads();
  }
  return sums[threadIdx.x] - value;
}

// In place, by one block: each count becomes the sum of those before it. Four counts a thread at a
// time.
extern "C" __global__ void __launch_bounds__(kScanThreads) adagrad_scan(int* counts, int length) {
  __shared__ int of_warps[kScanThreads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int before = 0;  // Of all tiles so far.
  for (int base = 0; base < length; base += kScanThreads * 4) {
    const int at = base + static_cast<int>(threadIdx.x) * 4;
    int values[4], sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[i] = at + i < length ? counts[at + i] : 0;
      sum += values[i];
    }
    int up_to = sum;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = __shfl_up_sync(0xffffffffu, up_to, distance);
      if (lane >= distance) up_to += other;
    }
    if (lane == 31) of_warps[warp] = up_to;
    __syncthreads();
    int mine = before + up_to - sum, all = 0;
    for (int i = 0; i < kScanThreads / 32; ++i) {
      if (i < warp) mine += of_warps[i];
      all += of_warps[i];
    }
    before += all;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (at + i < length) counts[at + i] = mine;
      mine += values[i];
    }
    __syncthreads();  // The warps' sums have been read.
  }
}

// Each thread places ITEMS neighbouring occurrences, in order.
extern "C" __global__ void __launch_bounds__(SORT_BLOCK)
    adagrad_scatter(int* keys, int* positions, const int* counts, int total, int tiles, int pass) {
  __shared__ int ranks[kRadix * SORT_BLOCK];  // By digit, then by thread.
  __shared__ int starts[kRadix];
  __shared__ int sums[SORT_BLOCK];
  const int from = pass % 2 == 0 ? 0 : total, to = total - from;
  const int first = blockIdx.x * kTile + threadIdx.x * ITEMS;
  const int last = first + ITEMS < total ? first + ITEMS : total;
  for (int digit = 0; digit < kRadix; ++digit) ranks[digit * SORT_BLOCK + threadIdx.x] = 0;
  for (int i = first; i < last; ++i)
    ++ranks[Digit(keys[from + i], pass) * SORT_BLOCK + threadIdx.x];
  __syncthreads();
  int* mine = ranks + threadIdx.x * kRadix;
  int sum = 0;
  for (int i = 0; i < kRadix; ++i) sum += mine[i];
  int before = SumBefore<SORT_BLOCK>(sum, sums);
  for (int i = 0; i < kRadix; ++i) {
    const int count = mine[i];
    mine[i] = before;
    before += count;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kRadix; i += SORT_BLOCK) starts[i] = ranks[i * SORT_BLOCK];
  __syncthreads();
  for (int i = first; i < last; ++i) {
    const int key = keys[from + i], digit = Digit(key, pass);
    const int rank = ranks[digit * SORT_BLOCK + threadIdx.x]++ - starts[digit];
    const int at = to + counts[digit * tiles + blockIdx.x] + rank;
    keys[at] = key;
    positions[at] = positions[from + i];
  }
}

// Of the LANES threads that this one belongs to.
__device__ __forceinline__ unsigned GroupMask() {
  return (0xffffffffu >> (32 - LANES)) << (threadIdx.x % 32 / LANES * LANES);
}

// Updates one row by the sum of its gradients; all threads of the group take part.
template <typename T>
__device__ __forceinline__ void Update(const float (&sums)[kPacks][4], int row, T* weights,
                                       float* momentum, int width, float rate, float eps, int lane,
                                       unsigned mask) {
  float squares = 0;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int i = 0; i < 4; ++i) squares += sums[p][i] * sums[p][i];
  }
#pragma unroll
  for (int offset = LANES / 2; offset > 0; offset /= 2)
    squares += __shfl_xor_sync(mask, squares, offset, LANES);
  // One thread reads what it will write.
  const float old = __shfl_sync(mask, lane == 0 ? momentum[row] : 0.0f, 0, LANES);
  const float moment = old + squares / width;
  const float factor = rate / (sqrtf(moment) + eps);
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int col = (p * LANES + lane) * 4;
    if (col >= width) continue;
    Four<T>* to = reinterpret_cast<Four<T>*>(weights + static_cast<long long>(row) * width + col);
    Four<T> four = *to;
#pragma unroll
    for (int i = 0; i < 4; ++i) Put(&four.at[i], ToFloat(four.at[i]) - factor * sums[p][i]);
    *to = four;
  }
  if (lane == 0) momentum[row] = moment;
}

// partial: of each chunk the sums of the run that goes on from the chunk before, and of the one
// that goes on into the next.
template <typename T, typename I>
__global__ void __launch_bounds__(BLOCK)
    adagrad_chunks(const int* keys, const int* positions, const int* bags, const I* offsets,
                   const float* sample_weights, const float* grad_out, T* weights, float* momentum,
                   float* partial, int total, int tables, int batch, int width, int mean,
                   float rate, float eps) {
  const int chunk = blockIdx.x * kGroups + threadIdx.x / LANES, lane = threadIdx.x % LANES;
  const int begin = chunk * CHUNK, end = begin + CHUNK < total ? begin + CHUNK : total;
  if (begin >= end) return;  // The whole group.
  const unsigned mask = GroupMask();
  const int before = begin > 0 ? keys[begin - 1] : -1, after = end < total ? keys[end] : -1;
  float sums[kPacks][4];
#pragma unroll
  for (int i = 0; i < kPacks * 4; ++i) sums[i / 4][i % 4] = 0.0f;
  int run_key = keys[begin];
  bool from_before = run_key == before;
  for (int base = begin; base < end; base += LANES) {
    // What the group needs of LANES occurrences, one each.
    int key = 0, source = 0;
    float scale = 0;
    if (base + lane < end) {
      const int position = positions[base + lane], bag = bags[position];
      key = keys[base + lane];
      source = bag % batch * tables + bag / batch;
      scale = sample_weights == nullptr ? 1.0f : sample_weights[position];
      if (mean != 0) scale /= static_cast<float>(offsets[bag + 1] - offsets[bag]);
    }
    const int count = end - base < LANES ? end - base : LANES;
    for (int at = 0; at < count; at += UNROLL) {
      Four<float> rows[UNROLL][kPacks];
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        const int row = __shfl_sync(mask, source, at + u < count ? at + u : at, LANES);
        const float* from = grad_out + static_cast<long long>(row) * width;
#pragma unroll
        for (int p = 0; p < kPacks; ++p) {
          const int col = (p * LANES + lane) * 4;
          if (col < width) rows[u][p] = *reinterpret_cast<const Four<float>*>(from + col);
        }
      }
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        const int next = __shfl_sync(mask, key, at + u < count ? at + u : at, LANES);
        const float factor = __shfl_sync(mask, scale, at + u < count ? at + u : at, LANES);
        if (at + u >= count) break;
        if (next != run_key) {  // The run ends within the chunk.
          if (from_before) {
#pragma unroll
            for (int p = 0; p < kPacks; ++p) {
              const int col = (p * LANES + lane) * 4;
              if (col >= width) continue;
              float* to = partial + 2LL * chunk * width + col;
              for (int i = 0; i < 4; ++i) to[i] = sums[p][i];
            }
          } else {
            Update(sums, run_key, weights, momentum, width, rate, eps, lane, mask);
          }
#pragma unroll
          for (int i = 0; i < kPacks * 4; ++i) sums[i / 4][i % 4] = 0.0f;
          run_key = next;
          from_before = false;
        }
#pragma unroll
        for (int p = 0; p < kPacks; ++p) {
          if ((p * LANES + lane) * 4 >= width) continue;
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[p][i] += factor * rows[u][p].at[i];
        }
      }
    }
  }
  if (!from_before && run_key != after) {
    Update(sums, run_key, weights, momentum, width, rate, eps, lane, mask);
    return;
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int col = (p * LANES + lane) * 4;
    if (col >= width) continue;
    float* to = partial + (2LL * chunk + (from_before ? 0 : 1)) * width + col;
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = sums[p][i];
  }
}

// A block for each chunk in which a run begins that goes on into the next one.
template <typename T>
__global__ void __launch_bounds__(BLOCK)
    adagrad_joined(const int* keys, const float* partial, T* weights, float* momentum, int total,
                   int chunks, int width, float rate, float eps) {
  __shared__ float shared[kGroups][kMaxWidth];
  const int chunk = blockIdx.x, begin = chunk * CHUNK, end = begin + CHUNK;
  if (end >= total) return;
  const int row = keys[end - 1];
  if (row != keys[end] || (keys[begin] == row && begin > 0 && keys[begin - 1] == row)) return;
  // The last chunk that begins with the row.
  int last = chunk + 1;
  for (int step = 1 << 30; step > 0; step /= 2) {
    if (step < chunks - last && keys[(last + step) * CHUNK] == row) last += step;
  }
  const int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  float sums[kPacks][4];
#pragma unroll
  for (int i = 0; i < kPacks * 4; ++i) sums[i / 4][i % 4] = 0.0f;
  for (int i = chunk + group; i <= last; i += kGroups) {
    const float* from = partial + (2LL * i + (i == chunk ? 1 : 0)) * width;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int col = (p * LANES + lane) * 4;
      if (col >= width) continue;
#pragma unroll
      for (int j = 0; j < 4; ++j) sums[p][j] += from[col + j];
    }
  }
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int j = 0; j < 4; ++j) shared[group][(p * LANES + lane) * 4 + j] = sums[p][j];
  }
  __syncthreads();
  if (group > 0) return;
  for (int other = 1; other < kGroups; ++other) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int j = 0; j < 4; ++j) sums[p][j] += shared[other][(p * LANES + lane) * 4 + j];
    }
  }
  Update(sums, row, weights, momentum, width, rate, eps, lane, GroupMask());
}
