// SPDX-License-Identifier: Apache-2.0
// Jagged attention without softmax on matrix instructions: HSTU's, with ACT defined GDPA's, with
// HOLD its gradient. A warp has 16 rows of queries and their results in registers; a block of BM
// rows walks the keys BN at a time through a ring of STAGES shared tiles of K and V that fill
// asynchronously. Scores never leave the registers: what a thread has of them after the first
// product is what it needs of them for the second. Tiles that no mask touches are not masked, those
// that it hides are passed over. Without mma the same fragments are multiplied by shuffles.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800 && !defined(FETTLE_TARGET_CPU) && \
    !defined(__AMDGCN__)
#define TENSOR 1
#else
#define TENSOR 0
#endif

#ifdef ACT
#define WIDTH D
#else
#define WIDTH V
#endif

using Brain = __nv_bfloat16;

// Enumerators, because run-time compilation makes variables of the module of constants at this
// level.
enum : int {
  kThreads = BM * 2,  // BM rows of a block, BN of a tile.
  kPitchK = D + 8,    // 16 bytes more than a row: its neighbours lie in other banks.
  kPitchV = WIDTH + 8,
  kStage = BN * (kPitchK + kPitchV),
  kKeyBlocks = BN / 8,
  kColumnBlocks = WIDTH / 8,
};

__device__ __forceinline__ void Copy16(Brain* to, const Brain* from, bool inside) {
#if TENSOR
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
#else
  for (int i = 0; i < 8; ++i) to[i] = inside ? from[i] : __float2bfloat16(0.0f);
#endif
}

__device__ __forceinline__ void Commit() {
#if TENSOR
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int kPending>
__device__ __forceinline__ void Arrived() {
#if TENSOR
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

// kRows rows of one head of a jagged array [*, heads, kCols] from row `first` on, zeros beyond
// `length`.
template <int kRows, int kCols, int kPitch>
__device__ __forceinline__ void Fill(Brain* tile, const Brain* from, int first, int length,
                                     int heads) {
  constexpr int kPacks = kCols / 8, kTurns = (kRows * kPacks + kThreads - 1) / kThreads;
#pragma unroll
  for (int turn = 0; turn < kTurns; ++turn) {
    const int at = turn * kThreads + static_cast<int>(threadIdx.x), row = at / kPacks,
              col = at % kPacks * 8;
    if (kRows * kPacks % kThreads != 0 && at >= kRows * kPacks) break;
    const bool inside = first + row < length;
    const Brain* source = from + static_cast<long long>(first + row) * heads * kCols + col;
    Copy16(tile + row * kPitch + col, inside ? source : from, inside);
  }
}

__device__ __forceinline__ unsigned Both(Brain low, Brain high) {
  return static_cast<unsigned>(__bfloat16_as_ushort(low)) |
         static_cast<unsigned>(__bfloat16_as_ushort(high)) << 16;
}

__device__ __forceinline__ unsigned Both(float low, float high) {
#if TENSOR
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#else
  return Both(__float2bfloat16(low), __float2bfloat16(high));
#endif
}

#if TENSOR
#define LDMATRIX(kind, regs, pointer)                                                     \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4" kind ".shared.b16 {%0, %1, %2, %3}, [%4];" \
               : "=r"(regs[0]), "=r"(regs[1]), "=r"(regs[2]), "=r"(regs[3])               \
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(pointer)))            \
               : "memory")
#endif

// A 16 x 16 tile as left operand.
template <int kPitch>
__device__ __forceinline__ void LoadLeft(unsigned (&to)[4], const Brain* tile, int lane) {
#if TENSOR
  LDMATRIX("", to, tile + lane % 16 * kPitch + lane / 16 * 8);
#else
  for (int i = 0; i < 4; ++i) {
    const Brain* from = tile + (lane / 4 + i % 2 * 8) * kPitch + lane % 4 * 2 + i / 2 * 8;
    to[i] = Both(from[0], from[1]);
  }
#endif
}

// 16 rows of 16 as right operands, each row a column of the product: two blocks of 8 columns.
template <int kPitch>
__device__ __forceinline__ void LoadRows(unsigned (&to)[4], const Brain* tile, int lane) {
#if TENSOR
  LDMATRIX("", to, tile + (lane % 8 + lane / 16 * 8) * kPitch + lane / 8 % 2 * 8);
#else
  for (int i = 0; i < 4; ++i) {
    const Brain* from = tile + (lane / 4 + i / 2 * 8) * kPitch + lane % 4 * 2 + i % 2 * 8;
    to[i] = Both(from[0], from[1]);
  }
#endif
}

// 16 rows of 16 as right operands, each column a column of the product: two blocks of 8 columns.
template <int kPitch>
__device__ __forceinline__ void LoadColumns(unsigned (&to)[4], const Brain* tile, int lane) {
#if TENSOR
  LDMATRIX(".trans", to, tile + (lane % 8 + lane / 8 % 2 * 8) * kPitch + lane / 16 * 8);
#else
  for (int i = 0; i < 4; ++i) {
    const Brain* from = tile + (lane % 4 * 2 + i % 2 * 8) * kPitch + lane / 4 + i / 2 * 8;
    to[i] = Both(from[0], from[kPitch]);
  }
#endif
}

__device__ __forceinline__ float Low(unsigned both) { return __uint_as_float(both << 16); }
__device__ __forceinline__ float High(unsigned both) { return __uint_as_float(both & 0xffff0000u); }

// 16 x 8 sums of products over a depth of 16.
__device__ __forceinline__ void Multiply(float (&sums)[4], const unsigned (&a)[4], unsigned b0,
                                         unsigned b1) {
#if TENSOR
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int pair = 0; pair < 8; ++pair) {
    const int from = lane / 4 * 4 + pair % 4;
    const unsigned top = __shfl_sync(0xffffffffu, pair < 4 ? a[0] : a[2], from);
    const unsigned bottom = __shfl_sync(0xffffffffu, pair < 4 ? a[1] : a[3], from);
    for (int j = 0; j < 2; ++j) {
      const unsigned right =
          __shfl_sync(0xffffffffu, pair < 4 ? b0 : b1, (lane % 4 * 2 + j) * 4 + pair % 4);
      sums[j] += Low(top) * Low(right) + High(top) * High(right);
      sums[2 + j] += Low(bottom) * Low(right) + High(bottom) * High(right);
    }
  }
#endif
}

// exp and a division, both fast: weights are rounded to bf16 anyway.
__device__ __forceinline__ float Sigmoid(float x) {
#if TENSOR
  return __fdividef(1.0f, 1.0f + __expf(-x));
#else
  return 1.0f / (1.0f + expf(-x));
#endif
}

#ifdef ACT

// Activations by number: raw, GELU with erf, GELU with tanh, leaky ReLU, ReLU, SiLU, hard swish,
// ReLU squared.
__device__ __forceinline__ float Weight(float x) {
  if (ACT == 0) return x;
  if (ACT == 1) return 0.5f * x * (1.0f + erff(x * 0.70710678f));
  if (ACT == 2) return x * Sigmoid(1.5957691f * x * (1.0f + 0.044715f * x * x));
  if (ACT == 4) return x >= 0.0f ? x : 0.01f * x;
  if (ACT == 5) return x >= 0.0f ? x : 0.0f;
  if (ACT == 7) return x * Sigmoid(x);
  if (ACT == 9) return x * fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) / 6.0f;
  return x >= 0.0f ? x * x : 0.0f;
}

// Keys further than `window` from a query count nothing, unless it is negative.
struct Mask {
  int rows, keys, window;

  __device__ bool operator()(int row, int key) const {
    return key < keys && (window < 0 || (row - key <= window && key - row <= window));
  }
  __device__ bool AllSeen(int row0, int key0) const {
    return key0 + BN <= keys &&
           (window < 0 || (row0 + BM - 1 - key0 <= window && key0 + BN - 1 - row0 <= window));
  }
  __device__ int FirstTile(int row0) const {
    return window < 0 || row0 <= window ? 0 : (row0 - window) / BN;
  }
  __device__ int End(int row0) const { return window < 0 ? keys : min(keys, row0 + BM + window); }
};

#else

__device__ __forceinline__ float Weight(float x) { return x * Sigmoid(x); }

// Positions of the leading contextual entries count as 0, those of the targets at the end as one:
// targets see history and themselves, not each other.
struct Mask {
  int length, contextual, targets, window, full;
  int last;  // The largest position.

  __device__ int Position(int index) const {
    const int position = contextual > 0 ? max(index - contextual + 1, 0) : index;
    return min(position, last);
  }
  __device__ bool operator()(int row, int key) const {
    const int r = Position(row), q = Position(key), distance = r - q;
    bool seen = row == key || distance > 0;
    if (window > 0) seen = seen && (distance <= window || (full > 0 && r >= last - full));
    if (contextual > 0) seen = seen || (r == 0 && q < last);
    return seen && row < length && key < length;
  }
  // Whether every row of the block, none of them contextual, comes after all keys of the tile, in
  // history.
  __device__ bool AllSeen(int row0, int key0) const {
    return key0 + BN <= row0 && row0 >= contextual && key0 + BN <= length - targets &&
           (window == 0 || Position(row0 + BM - 1) - Position(key0) <= window);
  }
  // Tiles before the first are too far for all rows.
  __device__ int FirstTile(int row0) const {
    if (window == 0 || row0 < contextual || (full > 0 && Position(row0 + BM - 1) >= last - full))
      return 0;
    int tile = 0;
    while ((tile + 1) * BN <= row0 && Position(row0) - Position((tile + 1) * BN - 1) > window)
      ++tile;
    return tile;
  }
  __device__ int End(int row0) const {
    return contextual == 0 || row0 >= contextual ? min(length, row0 + BM) : length;
  }
};

#endif

// The rows from row0 on of one head of one sequence: `q` and `out` at its first query, `k` and `v`
// at its first key.
__device__ __forceinline__ void Attend(const Brain* q, const Brain* k, const Brain* v, Brain* out,
                                       int row0, int rows, int keys, int heads, int kv_heads,
                                       const Mask& mask, float before, float after) {
  extern __shared__ float4 shared_words[];  // Aligned to 16 bytes.
  Brain* queries = reinterpret_cast<Brain*>(shared_words);
  Brain* ring = queries + BM * kPitchK;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first = mask.FirstTile(row0), end = (mask.End(row0) + BN - 1) / BN;
  Fill<BM, D, kPitchK>(queries, q, row0, rows, heads);
#pragma unroll
  for (int ahead = 0; ahead < STAGES - 1; ++ahead) {
    if (first + ahead < end) {
      Fill<BN, D, kPitchK>(ring + ahead * kStage, k, (first + ahead) * BN, keys, kv_heads);
      Fill<BN, WIDTH, kPitchV>(ring + ahead * kStage + BN * kPitchK, v, (first + ahead) * BN, keys,
                               kv_heads);
    }
    Commit();
  }
  unsigned left[D / 16][4];
  float sums[kColumnBlocks][4];
#pragma unroll
  for (int i = 0; i < kColumnBlocks * 4; ++i) sums[i / 4][i % 4] = 0.0f;
  int stage = 0;
#pragma unroll 1
  for (int tile = first; tile < end; ++tile) {
    Arrived<STAGES - 2>();
    __syncthreads();  // All have the tile, and all are done with the one before it.
    if (tile == first) {
#pragma unroll
      for (int d = 0; d < D / 16; ++d)
        LoadLeft<kPitchK>(left[d], queries + warp * 16 * kPitchK + d * 16, lane);
    }
    const int next = tile + STAGES - 1, next_stage = stage == 0 ? STAGES - 1 : stage - 1;
    if (next < end) {
      Fill<BN, D, kPitchK>(ring + next_stage * kStage, k, next * BN, keys, kv_heads);
      Fill<BN, WIDTH, kPitchV>(ring + next_stage * kStage + BN * kPitchK, v, next * BN, keys,
                               kv_heads);
    }
    Commit();
    const Brain* key_tile = ring + stage * kStage;
    const Brain* value_tile = key_tile + BN * kPitchK;
    float scores[kKeyBlocks][4];
#pragma unroll
    for (int i = 0; i < kKeyBlocks * 4; ++i) scores[i / 4][i % 4] = 0.0f;
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
#pragma unroll
      for (int j = 0; j < kKeyBlocks / 2; ++j) {
        unsigned right[4];
        LoadRows<kPitchK>(right, key_tile + j * 16 * kPitchK + d * 16, lane);
        Multiply(scores[2 * j], left[d], right[0], right[1]);
        Multiply(scores[2 * j + 1], left[d], right[2], right[3]);
      }
    }
    const bool masked = !mask.AllSeen(row0, tile * BN);
#pragma unroll
    for (int j = 0; j < kKeyBlocks; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        scores[j][i] = Weight(before * scores[j][i]);
        if (masked && !mask(row0 + warp * 16 + lane / 4 + i / 2 * 8,
                            tile * BN + j * 8 + lane % 4 * 2 + i % 2)) {
          scores[j][i] = 0.0f;
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kKeyBlocks / 2; ++j) {
      const unsigned weights[4] = {Both(scores[2 * j][0], scores[2 * j][1]),
                                   Both(scores[2 * j][2], scores[2 * j][3]),
                                   Both(scores[2 * j + 1][0], scores[2 * j + 1][1]),
                                   Both(scores[2 * j + 1][2], scores[2 * j + 1][3])};
#pragma unroll
      for (int c = 0; c < kColumnBlocks / 2; ++c) {
        unsigned right[4];
        LoadColumns<kPitchV>(right, value_tile + j * 16 * kPitchV + c * 16, lane);
        Multiply(sums[2 * c], weights, right[0], right[1]);
        Multiply(sums[2 * c + 1], weights, right[2], right[3]);
      }
    }
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
  Arrived<0>();  // Nothing is on its way to shared memory any more.
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + warp * 16 + lane / 4 + half * 8;
    if (row >= rows) continue;
    Brain* to = out + static_cast<long long>(row) * heads * WIDTH + lane % 4 * 2;
#pragma unroll
    for (int c = 0; c < kColumnBlocks; ++c) {
      *reinterpret_cast<unsigned*>(to + c * 8) =
          Both(after * sums[c][half * 2], after * sums[c][half * 2 + 1]);
    }
  }
}

#ifdef HOLD

// The derivative of Weight.
__device__ __forceinline__ float Slope(float x) {
  if (ACT == 0) return 1.0f;
  if (ACT == 1)
    return 0.5f * (1.0f + erff(x * 0.70710678f)) + x * 0.39894228f * expf(-0.5f * x * x);
  if (ACT == 2) {
    const float sigmoid = Sigmoid(1.5957691f * x * (1.0f + 0.044715f * x * x));
    return sigmoid * (1.0f + x * (1.0f - sigmoid) * (1.5957691f + 0.21406444f * x * x));
  }
  if (ACT == 7) {
    const float sigmoid = Sigmoid(x);
    return sigmoid * (1.0f + x * (1.0f - sigmoid));
  }
  return 2.0f * fmaxf(x, 0.0f);
}

// One side of the gradient. A block has BM rows of this side's two arrays, x and y, and walks the
// other side's, u and w: S = x u^T are scores, G = y w^T what their weights' gradients are made of.
// It adds G act'(S) times u and, with kBoth, act(S) times w. Queries have (Q, dO) and walk (K, V);
// keys have (K, V) and walk (Q, dO) of each of the `members` heads that share them.
template <bool kBoth>
__device__ __forceinline__ void Grad(const Brain* x, const Brain* y, const Brain* u, const Brain* w,
                                     Brain* of_u, Brain* of_w, int row0, int rows, int others,
                                     int heads, int other_heads, int members, int window,
                                     float scale) {
  extern __shared__ float4 shared_words[];  // Aligned to 16 bytes.
  Brain* own = reinterpret_cast<Brain*>(shared_words);
  Brain* ring = own + 2 * BM * kPitchK;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Mask mask;
  mask.rows = rows;
  mask.keys = others;
  mask.window = window;
  const int first = mask.FirstTile(row0), end = (mask.End(row0) + BN - 1) / BN;
  const int each = end > first ? end - first : 0, tiles = each * members;
  Fill<BM, D, kPitchK>(own, x, row0, rows, heads);
  Fill<BM, D, kPitchK>(own + BM * kPitchK, y, row0, rows, heads);
  const auto fill = [&](int tile, int stage) {
    const int member = tile / each, at = (first + tile % each) * BN;
    Fill<BN, D, kPitchK>(ring + stage * kStage, u + member * D, at, others, other_heads);
    Fill<BN, D, kPitchK>(ring + stage * kStage + BN * kPitchK, w + member * D, at, others,
                         other_heads);
  };
#pragma unroll
  for (int ahead = 0; ahead < STAGES - 1; ++ahead) {
    if (ahead < tiles) fill(ahead, ahead);
    Commit();
  }
  const Brain* mine = own + warp * 16 * kPitchK;
  unsigned left[HOLD ? 2 * D / 16 : 1][4];
  float to_u[kColumnBlocks][4], to_w[kBoth ? kColumnBlocks : 1][4];
#pragma unroll
  for (int i = 0; i < kColumnBlocks * 4; ++i) to_u[i / 4][i % 4] = 0.0f;
#pragma unroll
  for (int i = 0; i < (kBoth ? kColumnBlocks * 4 : 4); ++i) to_w[i / 4][i % 4] = 0.0f;
  int stage = 0;
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    Arrived<STAGES - 2>();
    __syncthreads();  // All have the tile, and all are done with the one before it.
    if (HOLD && tile == 0) {
#pragma unroll
      for (int d = 0; d < (HOLD ? D / 16 : 0); ++d) {
        LoadLeft<kPitchK>(left[2 * d], mine + d * 16, lane);
        LoadLeft<kPitchK>(left[2 * d + 1], mine + BM * kPitchK + d * 16, lane);
      }
    }
    if (tile + STAGES - 1 < tiles) fill(tile + STAGES - 1, stage == 0 ? STAGES - 1 : stage - 1);
    Commit();
    const Brain* u_tile = ring + stage * kStage;
    const Brain* w_tile = u_tile + BN * kPitchK;
    float scores[kKeyBlocks][4], grads[kKeyBlocks][4];
#pragma unroll
    for (int i = 0; i < kKeyBlocks * 4; ++i) scores[i / 4][i % 4] = grads[i / 4][i % 4] = 0.0f;
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      unsigned of_x[4], of_y[4], right[4];
      if (!HOLD) {
        LoadLeft<kPitchK>(of_x, mine + d * 16, lane);
        LoadLeft<kPitchK>(of_y, mine + BM * kPitchK + d * 16, lane);
      }
      const unsigned(&a)[4] = HOLD ? left[HOLD ? 2 * d : 0] : of_x;
      const unsigned(&b)[4] = HOLD ? left[HOLD ? 2 * d + 1 : 0] : of_y;
#pragma unroll
      for (int j = 0; j < kKeyBlocks / 2; ++j) {
        LoadRows<kPitchK>(right, u_tile + j * 16 * kPitchK + d * 16, lane);
        Multiply(scores[2 * j], a, right[0], right[1]);
        Multiply(scores[2 * j + 1], a, right[2], right[3]);
        LoadRows<kPitchK>(right, w_tile + j * 16 * kPitchK + d * 16, lane);
        Multiply(grads[2 * j], b, right[0], right[1]);
        Multiply(grads[2 * j + 1], b, right[2], right[3]);
      }
    }
    const int at = (first + tile % each) * BN;
    const bool masked = !mask.AllSeen(row0, at);
#pragma unroll
    for (int j = 0; j < kKeyBlocks; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float score = scores[j][i];
        scores[j][i] = kBoth ? Weight(score) : 0.0f;
        grads[j][i] *= Slope(score);
        if (masked &&
            !mask(row0 + warp * 16 + lane / 4 + i / 2 * 8, at + j * 8 + lane % 4 * 2 + i % 2)) {
          scores[j][i] = grads[j][i] = 0.0f;
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kKeyBlocks / 2; ++j) {
      const float(&g0)[4] = grads[2 * j];
      const float(&g1)[4] = grads[2 * j + 1];
      const float(&s0)[4] = scores[2 * j];
      const float(&s1)[4] = scores[2 * j + 1];
      const unsigned slopes[4] = {Both(g0[0], g0[1]), Both(g0[2], g0[3]), Both(g1[0], g1[1]),
                                  Both(g1[2], g1[3])};
      const unsigned weights[4] = {Both(s0[0], s0[1]), Both(s0[2], s0[3]), Both(s1[0], s1[1]),
                                   Both(s1[2], s1[3])};
#pragma unroll
      for (int c = 0; c < kColumnBlocks / 2; ++c) {
        unsigned right[4];
        LoadColumns<kPitchK>(right, u_tile + j * 16 * kPitchK + c * 16, lane);
        Multiply(to_u[2 * c], slopes, right[0], right[1]);
        Multiply(to_u[2 * c + 1], slopes, right[2], right[3]);
        if (!kBoth) continue;
        LoadColumns<kPitchK>(right, w_tile + j * 16 * kPitchK + c * 16, lane);
        Multiply(to_w[kBoth ? 2 * c : 0], weights, right[0], right[1]);
        Multiply(to_w[kBoth ? 2 * c + 1 : 0], weights, right[2], right[3]);
      }
    }
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
  Arrived<0>();  // Nothing is on its way to shared memory any more.
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + warp * 16 + lane / 4 + half * 8;
    if (row >= rows) continue;
    const long long start = static_cast<long long>(row) * heads * D + lane % 4 * 2;
#pragma unroll
    for (int c = 0; c < kColumnBlocks; ++c) {
      *reinterpret_cast<unsigned*>(of_u + start + c * 8) =
          Both(scale * to_u[c][half * 2], scale * to_u[c][half * 2 + 1]);
      if (!kBoth) continue;
      const float(&sums)[4] = to_w[kBoth ? c : 0];
      *reinterpret_cast<unsigned*>(of_w + start + c * 8) =
          Both(scale * sums[half * 2], scale * sums[half * 2 + 1]);
    }
  }
}

extern "C" __global__ void __launch_bounds__(kThreads)
    gdpa_matrix_q(const Brain* q, const Brain* k, const Brain* v, const Brain* grad,
                  const long long* q_offsets, const long long* k_offsets, Brain* dq, int heads,
                  int group, int window, float scale) {
  const int sequence = blockIdx.z, head = blockIdx.y, row0 = blockIdx.x * BM,
            kv_heads = heads / group;
  const long long q_start = q_offsets[sequence], k_start = k_offsets[sequence];
  const int rows = static_cast<int>(q_offsets[sequence + 1] - q_start);
  const int keys = static_cast<int>(k_offsets[sequence + 1] - k_start);
  if (row0 >= rows) return;  // The whole block.
  const long long at = (q_start * heads + head) * D,
                  key_at = (k_start * kv_heads + head / group) * D;
  Grad<false>(q + at, grad + at, k + key_at, v + key_at, dq + at, nullptr, row0, rows, keys, heads,
              kv_heads, 1, window, scale);
}

extern "C" __global__ void __launch_bounds__(kThreads)
    gdpa_matrix_kv(const Brain* q, const Brain* k, const Brain* v, const Brain* grad,
                   const long long* q_offsets, const long long* k_offsets, Brain* dk, Brain* dv,
                   int heads, int group, int window, float scale) {
  const int sequence = blockIdx.z, kv_head = blockIdx.y, key0 = blockIdx.x * BM,
            kv_heads = heads / group;
  const long long q_start = q_offsets[sequence], k_start = k_offsets[sequence];
  const int rows = static_cast<int>(q_offsets[sequence + 1] - q_start);
  const int keys = static_cast<int>(k_offsets[sequence + 1] - k_start);
  if (key0 >= keys) return;  // The whole block.
  const long long at = (q_start * heads + kv_head * group) * D,
                  key_at = (k_start * kv_heads + kv_head) * D;
  Grad<true>(k + key_at, v + key_at, q + at, grad + at, dk + key_at, dv + key_at, key0, keys, rows,
             kv_heads, heads, group, window, scale);
}

#elif defined(ACT)

extern "C" __global__ void __launch_bounds__(kThreads)
    gdpa_matrix(const Brain* q, const Brain* k, const Brain* v, const long long* q_offsets,
                const long long* k_offsets, Brain* out, int heads, int group, int window,
                float scale) {
  const int sequence = blockIdx.z, head = blockIdx.y, row0 = blockIdx.x * BM,
            kv_heads = heads / group;
  const long long q_start = q_offsets[sequence], k_start = k_offsets[sequence];
  Mask mask;
  mask.rows = static_cast<int>(q_offsets[sequence + 1] - q_start);
  mask.keys = static_cast<int>(k_offsets[sequence + 1] - k_start);
  mask.window = window;
  if (row0 >= mask.rows) return;  // The whole block.
  const long long queries = (q_start * heads + head) * D,
                  keys = (k_start * kv_heads + head / group) * D;
  Attend(q + queries, k + keys, v + keys, out + queries, row0, mask.rows, mask.keys, heads,
         kv_heads, mask, 1.0f, scale);
}

#else

extern "C" __global__ void __launch_bounds__(kThreads)
    hstu_matrix(const Brain* q, const Brain* k, const Brain* v, const long long* offsets,
                const int* num_targets, Brain* out, int heads, int max_len, int contextual,
                int window, int full, float alpha) {
  // The last rows have the most keys: they come first.
  const int sequence = blockIdx.z, head = blockIdx.y, row0 = (gridDim.x - 1 - blockIdx.x) * BM;
  const long long start = offsets[sequence];
  Mask mask;
  mask.length = static_cast<int>(offsets[sequence + 1] - start);
  if (row0 >= mask.length) return;  // The whole block.
  mask.contextual = contextual;
  mask.targets = num_targets == nullptr ? 0 : num_targets[sequence];
  mask.window = window;
  mask.full = full;
  mask.last = (contextual == 0 ? mask.length : mask.length - contextual + 1) - mask.targets;
  const long long first = start * heads + head;
  Attend(q + first * D, k + first * D, v + first * V, out + first * V, row0, mask.length,
         mask.length, heads, heads, mask, alpha, 1.0f / static_cast<float>(max_len));
}

#endif
