// SPDX-License-Identifier: Apache-2.0
// Gradient of the pooled embedding lookup with exact row-wise Adagrad. The occurrences of rows are sorted by
// (table, row), stably, by BITS bits a pass; then LANES threads take each run of equal rows, add its gradients
// in order, and update the row once. Long runs, of hot rows, are walked by LANES threads alone.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__device__ __forceinline__ float ToFloat(float value) { return value; }
__device__ __forceinline__ float ToFloat(__half value) { return __half2float(value); }
__device__ __forceinline__ void Put(float* to, float value) { *to = value; }
__device__ __forceinline__ void Put(__half* to, float value) { *to = __float2half(value); }

constexpr int kRadix = 1 << BITS;
constexpr int kTile = SORT_BLOCK * ITEMS;           // Occurrences that a block sorts.
constexpr int kMaxWidth = 256;
constexpr int kColumns = kMaxWidth / LANES;         // Columns per thread of a run, at most.
constexpr int kScanThreads = 256;

// key: the row's number among all tables; position: where the occurrence stands; bag: which one it is in.
template <typename I>
__global__ void __launch_bounds__(BLOCK)
    adagrad_keys(const I* indices, const I* offsets, int* keys, int* positions, int* bags, int bag_count,
                 int batch, int rows) {
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

__device__ __forceinline__ int Digit(int key, int pass) { return key >> (pass * BITS) & (kRadix - 1); }

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

// In place, by one block: each count becomes the sum of those before it.
extern "C" __global__ void __launch_bounds__(kScanThreads) adagrad_scan(int* counts, int length) {
  __shared__ int sums[kScanThreads];
  const int share = (length + kScanThreads - 1) / kScanThreads;
  const int first = static_cast<int>(threadIdx.x) * share;
  const int last = first + share < length ? first + share : length;
  int sum = 0;
  for (int i = first; i < last; ++i) sum += counts[i];
  int before = SumBefore<kScanThreads>(sum, sums);
  for (int i = first; i < last; ++i) {
    const int count = counts[i];
    counts[i] = before;
    before += count;
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
  for (int i = first; i < last; ++i) ++ranks[Digit(keys[from + i], pass) * SORT_BLOCK + threadIdx.x];
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

// Sum over the LANES threads of a run; all threads of the warp take part.
__device__ __forceinline__ float RunSum(float value) {
  for (int offset = LANES / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

template <typename T, typename I>
__global__ void __launch_bounds__(BLOCK)
    adagrad_update(const int* keys, const int* positions, const int* bags, const I* offsets,
                   const float* sample_weights, const float* grad_out, T* weights, float* momentum,
                   int total, int tables, int batch, int width, int mean, float rate, float eps) {
  const int place = blockIdx.x * (BLOCK / LANES) + threadIdx.x / LANES, lane = threadIdx.x % LANES;
  const bool head = place < total && (place == 0 || keys[place - 1] != keys[place]);
  const int row = head ? keys[place] : 0;
  float sums[kColumns] = {};
  for (int i = place; head && i < total && keys[i] == row; ++i) {
    const int position = positions[i], bag = bags[position];
    float scale = sample_weights == nullptr ? 1.0f : sample_weights[position];
    if (mean != 0) scale /= static_cast<float>(offsets[bag + 1] - offsets[bag]);
    const float* from =
        grad_out + (static_cast<long long>(bag % batch) * tables + bag / batch) * width;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      if (lane + c * LANES < width) sums[c] += scale * from[lane + c * LANES];
    }
  }
  // One thread reads what it will write.
  const float old_moment = __shfl_sync(0xffffffffu, head && lane == 0 ? momentum[row] : 0.0f, 0, LANES);
  float squares = 0;
#pragma unroll
  for (int c = 0; c < kColumns; ++c) squares += sums[c] * sums[c];
  squares = RunSum(squares);
  if (!head) return;
  const float moment = old_moment + squares / width;
  const float factor = rate / (sqrtf(moment) + eps);
  T* to = weights + static_cast<long long>(row) * width;
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const int col = lane + c * LANES;
    if (col < width) Put(to + col, ToFloat(to[col]) - factor * sums[c]);
  }
  if (lane == 0) momentum[row] = moment;
}
