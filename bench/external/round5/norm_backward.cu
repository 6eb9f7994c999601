// SPDX-License-Identifier: Apache-2.0
// Gradient of layer normalization (CENTER 1) or RMS normalization (CENTER 0) in one pass: a warp or
// a block has whole rows, one after another, writes their dx, and adds up in registers what its
// rows give each column. The rows to come are on their way into shared memory, each thread's share
// into places of its own, STAGES rows deep (fp32: STAGESF). A last launch adds up the blocks'
// columns in a fixed order. Rows that are long or no whole packs take a plain way.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define ASYNC 1
#include <cuda_pipeline.h>
#else
#define ASYNC 0
#endif

__device__ __forceinline__ float ToFloat(float value) { return value; }
__device__ __forceinline__ float ToFloat(__half value) { return __half2float(value); }
__device__ __forceinline__ float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ void Put(float* to, float value) { *to = value; }
__device__ __forceinline__ void Put(__half* to, float value) { *to = __float2half(value); }
__device__ __forceinline__ void Put(__nv_bfloat16* to, float value) {
  *to = __float2bfloat16(value);
}

template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

// kLanes threads share a row of up to kColumns columns, a multiple of 16 bytes; a block takes kRows
// rows at a time, more than one only where a row belongs to a warp.
template <typename T, int kLanes, int kRows, int kColumns, int kBlocks>
__global__ void __launch_bounds__(kLanes* kRows, kBlocks)
    norm_backward_rows(const T* dy, const T* x, const T* gamma, const float* mean,
                       const float* rstd, T* dx, float* partial, int rows, int cols) {
  constexpr int kVec = 16 / static_cast<int>(sizeof(T)), kPacks = kColumns / (kLanes * kVec);
  constexpr int kThreads = kLanes * kRows, kWarps = kLanes / 32;
  constexpr int kStages = sizeof(T) == 4 ? STAGESF : STAGES;
  using Wide = Pack<T, kVec>;
  const int tid = threadIdx.x, at = tid % kLanes, lane = tid % 32;
  const int stride = static_cast<int>(gridDim.x) * kRows;
  int row = static_cast<int>(blockIdx.x) * kRows + tid / kLanes;

  float to_gamma[kPacks][kVec], to_beta[CENTER ? kPacks : 1][kVec];
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int i = 0; i < kVec; ++i) to_gamma[p][i] = to_beta[CENTER ? p : 0][i] = 0.0f;
  }
#if ASYNC
  extern __shared__ uint4 ring[];
  int stage = 0;
  // The thread's packs of dy (0) and of x (1).
  const auto place = [&](int of_stage, int which, int p) {
    return reinterpret_cast<Wide*>(ring) + ((of_stage * 2 + which) * kPacks + p) * kThreads + tid;
  };
  const auto fetch = [&](int from, int to_stage) {
    if (from < rows) {
      const long long start = static_cast<long long>(from) * cols;
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        const int col = (p * kLanes + at) * kVec;
        if (col >= cols) continue;
        __pipeline_memcpy_async(place(to_stage, 0, p), dy + start + col, 16);
        __pipeline_memcpy_async(place(to_stage, 1, p), x + start + col, 16);
      }
    }
    __pipeline_commit();
  };
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) fetch(row + s * stride, s);
#endif
  __shared__ Pack<float, 4> places[2][kWarps > 1 ? kWarps / 2 : 1];
  float next_inverse = row < rows ? rstd[row] : 0.0f;
  float next_center = CENTER && row < rows ? mean[row] : 0.0f;
  for (int turn = 0; row < rows; ++turn, row += stride) {
    const long long start = static_cast<long long>(row) * cols;
#if ASYNC
    __pipeline_wait_prior(kStages - 2);
    fetch(row + (kStages - 1) * stride, stage == 0 ? kStages - 1 : stage - 1);
    const auto take = [&](int which, int p, int) { return *place(stage, which, p); };
#else
    const auto take = [&](int which, int, int col) {
      return *reinterpret_cast<const Wide*>((which == 0 ? dy : x) + start + col);
    };
#endif
    const float inverse = next_inverse, center = next_center;
    if (row + stride < rows) {
      next_inverse = rstd[row + stride];
      if (CENTER) next_center = mean[row + stride];
    }
    float sum = 0, across = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int col = (p * kLanes + at) * kVec;
      if (col >= cols) continue;
      const Wide grads = take(0, p, col), inputs = take(1, p, col);
      const Wide scale = *reinterpret_cast<const Wide*>(gamma + col);
      float part = 0, along = 0;
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        const float grad = ToFloat(grads.at[i]), weighted = grad * ToFloat(scale.at[i]);
        const float normal = (ToFloat(inputs.at[i]) - center) * inverse;
        to_gamma[p][i] += grad * normal;
        if (CENTER) {
          to_beta[CENTER ? p : 0][i] += grad;
          part += weighted;
        }
        along += weighted * normal;
      }
      sum += part;
      across += along;
    }
    // With two sums, the lower lanes go on with one and the upper lanes with the other.
    float kept = across;
    if (CENTER) {
      kept = lane < 16 ? sum : across;
      const float given = lane < 16 ? across : sum;
      kept += __shfl_xor_sync(0xffffffffu, given, 16);
    }
#pragma unroll
    for (int offset = CENTER ? 8 : 16; offset > 0; offset /= 2)
      kept += __shfl_xor_sync(0xffffffffu, kept, offset);
    if (kWarps == 1) {
      sum = CENTER ? __shfl_sync(0xffffffffu, kept, 0) : 0.0f;
      across = CENTER ? __shfl_sync(0xffffffffu, kept, 16) : kept;
      __syncwarp();  // So that the row is read again below: registers are for the columns.
    } else {
      // Two sets of places in turn, so that one barrier a row is enough.
      float* to = places[turn % 2][tid / 64].at + tid / 32 % 2 * 2;
      if (CENTER ? lane % 16 == 0 : lane == 0) to[CENTER ? lane / 16 : 1] = kept;
      __syncthreads();
      sum = across = 0;
#pragma unroll
      for (int i = 0; i < kWarps / 2; ++i) {
        const Pack<float, 4> two = places[turn % 2][i];
        if (CENTER) sum += two.at[0] + two.at[2];
        across += two.at[1] + two.at[3];
      }
    }
    sum /= static_cast<float>(cols);
    across /= static_cast<float>(cols);
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int col = (p * kLanes + at) * kVec;
      if (col >= cols) continue;
      const Wide grads = take(0, p, col), inputs = take(1, p, col);
      const Wide scale = *reinterpret_cast<const Wide*>(gamma + col);
      Wide out;
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        const float weighted = ToFloat(grads.at[i]) * ToFloat(scale.at[i]);
        const float normal = (ToFloat(inputs.at[i]) - center) * inverse;
        Put(&out.at[i], inverse * (weighted - sum - normal * across));
      }
      *reinterpret_cast<Wide*>(dx + start + col) = out;
    }
#if ASYNC
    stage = stage == kStages - 1 ? 0 : stage + 1;
#endif
  }

  float* own = partial + static_cast<long long>(blockIdx.x) * (CENTER + 1) * cols;
  if constexpr (kRows > 1) {
    __shared__ float columns[CENTER + 1][kColumns];
    for (int turn = 0; turn < kRows; ++turn) {
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        const int col = (p * kLanes + at) * kVec;
        if (tid / kLanes != turn || col >= cols) continue;
#pragma unroll
        for (int i = 0; i < kVec; ++i) {
          columns[0][col + i] = (turn > 0 ? columns[0][col + i] : 0.0f) + to_gamma[p][i];
          if (CENTER) {
            columns[CENTER][col + i] =
                (turn > 0 ? columns[CENTER][col + i] : 0.0f) + to_beta[CENTER ? p : 0][i];
          }
        }
      }
      __syncthreads();
    }
    for (int i = tid; i < (CENTER + 1) * cols; i += kThreads) own[i] = columns[i / cols][i % cols];
  } else {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int col = (p * kLanes + at) * kVec;
      if (col >= cols) continue;
#pragma unroll
      for (int i = 0; i < kVec; ++i) {
        own[col + i] = to_gamma[p][i];
        if (CENTER) own[cols + col + i] = to_beta[CENTER ? p : 0][i];
      }
    }
  }
}

// Other rows: a block has one and reads it twice.
template <typename T>
__global__ void __launch_bounds__(256)
    norm_backward_any_rows(const T* dy, const T* x, const T* gamma, const float* mean,
                           const float* rstd, T* dx, int cols) {
  __shared__ float places[2][8];
  const int tid = threadIdx.x;
  const long long start = static_cast<long long>(blockIdx.x) * cols;
  const float inverse = rstd[blockIdx.x], center = CENTER ? mean[blockIdx.x] : 0.0f;
  float sum = 0, across = 0;
  for (int c = tid; c < cols; c += 256) {
    const float weighted = ToFloat(dy[start + c]) * ToFloat(gamma[c]);
    sum += weighted;
    across += weighted * ((ToFloat(x[start + c]) - center) * inverse);
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    across += __shfl_xor_sync(0xffffffffu, across, offset);
  }
  if (tid % 32 == 0) {
    places[0][tid / 32] = sum;
    places[1][tid / 32] = across;
  }
  __syncthreads();
  sum = across = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (CENTER) sum += places[0][i];
    across += places[1][i];
  }
  sum /= static_cast<float>(cols);
  across /= static_cast<float>(cols);
  for (int c = tid; c < cols; c += 256) {
    const float weighted = ToFloat(dy[start + c]) * ToFloat(gamma[c]);
    const float normal = (ToFloat(x[start + c]) - center) * inverse;
    Put(dx + start + c, inverse * (weighted - sum - normal * across));
  }
}

// And their columns' parts: of every so many rows each.
template <typename T>
__global__ void __launch_bounds__(128)
    norm_backward_any_parts(const T* dy, const T* x, const float* mean, const float* rstd,
                            float* partial, int rows, int cols) {
  const int col = blockIdx.x * 128 + threadIdx.x;
  if (col >= cols) return;
  float to_gamma = 0, to_beta = 0;
  for (int row = blockIdx.y; row < rows; row += gridDim.y) {
    const long long at = static_cast<long long>(row) * cols + col;
    const float grad = ToFloat(dy[at]);
    to_gamma += grad * ((ToFloat(x[at]) - (CENTER ? mean[row] : 0.0f)) * rstd[row]);
    to_beta += grad;
  }
  float* own = partial + static_cast<long long>(blockIdx.y) * (CENTER + 1) * cols + col;
  own[0] = to_gamma;
  if (CENTER) own[cols] = to_beta;
}

// Blocks of 8 columns by 64: as many rows of the parts at a time.
extern "C" __global__ void __launch_bounds__(512)
    norm_backward_columns(const float* partial, float* dgamma, float* dbeta, int cols, int parts) {
  __shared__ float shared[CENTER + 1][16][8];
  const int col = blockIdx.x * 8 + threadIdx.x, y = threadIdx.y;
  float sums[CENTER + 1] = {};
  if (col < cols) {
#pragma unroll 4
    for (int part = y; part < parts; part += 64) {
      const float* from = partial + static_cast<long long>(part) * (CENTER + 1) * cols + col;
#pragma unroll
      for (int i = 0; i <= CENTER; ++i) sums[i] += from[i * cols];
    }
  }
#pragma unroll
  for (int i = 0; i <= CENTER; ++i) {
    sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], 8);
    sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], 16);
    if (y % 4 == 0) shared[i][y / 4][threadIdx.x] = sums[i];
  }
  __syncthreads();
  if (y > CENTER || col >= cols) return;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) sum += shared[y][i][threadIdx.x];
  (y == 0 ? dgamma : dbeta)[col] = sum;
}
