// SPDX-License-Identifier: Apache-2.0
// D = alpha A B + beta C on Hopper's warpgroup multiplications. A block has a tile of results, each
// warpgroup kRows times 64 rows of it in registers, and walks the depth 64 at a time through a ring
// of shared tiles in the swizzled layout that wgmma reads: A by rows of 64 depths, B as it lies, by
// rows of 64 columns. The ring is filled by asynchronous copies, as wide as the rows allow. The
// plan takes large tiles for long depths, if they fill the device. Elsewhere than on sm_90a the
// same tiles are multiplied by plain code.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HOPPER 1
#else
#define HOPPER 0
#endif

__device__ __forceinline__ float ToFloat(__half value) { return __half2float(value); }
__device__ __forceinline__ float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ void Put(__half* to, float value) { *to = __float2half(value); }
__device__ __forceinline__ void Put(__nv_bfloat16* to, float value) {
  *to = __float2bfloat16(value);
}

// Enumerators, because run-time compilation makes variables of the module of constants at this
// level.
enum : int {
  kDepth = 64,  // Of a shared tile: 128 bytes, one swizzled row.
  kRowBytes = 128,
  kGroupThreads = 128,
};

template <int kM, int kN>
struct TileOf {
  enum : int { kABytes = kM * kRowBytes, kBBytes = kN * kRowBytes, kBytes = kABytes + kBBytes };
};

// Where 16 bytes number `chunk` of a row of 128 bytes lie: chunks of a row change places by its
// number.
__device__ __forceinline__ int Swizzled(int row, int chunk) {
  return row * kRowBytes + ((chunk ^ (row & 7)) << 4);
}

// The first 1024-byte boundary of the dynamic shared memory: swizzling goes by addresses.
__device__ __forceinline__ char* Ring(char* shared) {
#if HOPPER
  const unsigned long long address = __cvta_generic_to_shared(shared);
#else
  const unsigned long long address = reinterpret_cast<unsigned long long>(shared);
#endif
  return shared + ((1024 - address % 1024) % 1024);
}

// kBytes of global into shared memory, zeros where there is nothing to read.
template <int kBytes>
__device__ __forceinline__ void CopyAsync(char* to, const void* from, bool inside) {
#if HOPPER
  if (kBytes == 2) {
    *reinterpret_cast<unsigned short*>(to) = inside ? *static_cast<const unsigned short*>(from) : 0;
    return;
  }
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from),
                 "r"(inside ? 4 : 0)
                 : "memory");
  }
#else
  for (int i = 0; i < kBytes; i += 2) {
    *reinterpret_cast<unsigned short*>(to + i) =
        inside ? *reinterpret_cast<const unsigned short*>(static_cast<const char*>(from) + i) : 0;
  }
#endif
}

__device__ __forceinline__ void Commit() {
#if HOPPER
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Until but kPending of this thread's groups of copies have arrived, and seen by the matrix units.
template <int kPending>
__device__ __forceinline__ void Arrived() {
#if HOPPER
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// kRows rows of 128 bytes from a row-major matrix of `rows` x `cols` elements, from (row0, col0)
// on, by kThreads threads. kBytes a copy.
template <int kRows, int kThreads, int kBytes, typename T>
__device__ __forceinline__ void FillRows(char* tile, const T* matrix, int row0, int col0, int rows,
                                         int cols, int tid) {
  constexpr int kElements = kBytes / 2, kCopies = kRowBytes / kBytes,
                kTurns = kRows * kCopies / kThreads;
#pragma unroll(kBytes == 16 ? kTurns : 4)
  for (int turn = 0; turn < kTurns; ++turn) {
    const int at = turn * kThreads + tid, row = at / kCopies, byte = at % kCopies * kBytes;
    const int col = at % kCopies * kElements;
    const bool inside = row0 + row < rows && col0 + col < cols;
    const T* from = matrix + static_cast<long long>(row0 + row) * cols + col0 + col;
    CopyAsync<kBytes>(tile + Swizzled(row, byte >> 4) + (byte & 15), inside ? from : matrix,
                      inside);
  }
}

// The tile of B: for each 64 columns the 64 depths' rows. Neighbouring threads read along a depth.
template <int kN, int kThreads, int kBytes, typename T>
__device__ __forceinline__ void FillColumns(char* tile, const T* matrix, int depth0, int col0,
                                            int depths, int cols, int tid) {
  constexpr int kElements = kBytes / 2, kCopies = kN / kElements,
                kTurns = kDepth * kCopies / kThreads;
#pragma unroll(kBytes == 16 ? kTurns : 4)
  for (int turn = 0; turn < kTurns; ++turn) {
    const int at = turn * kThreads + tid, depth = at / kCopies, col = at % kCopies * kElements;
    const int byte = col % 64 * 2;
    const bool inside = depth0 + depth < depths && col0 + col < cols;
    const T* from = matrix + static_cast<long long>(depth0 + depth) * cols + col0 + col;
    CopyAsync<kBytes>(
        tile + col / 64 * (kDepth * kRowBytes) + Swizzled(depth, byte >> 4) + (byte & 15),
        inside ? from : matrix, inside);
  }
}

#if HOPPER

// An operand in shared memory: rows of 128 bytes, swizzled, groups of 8 rows 1024 bytes apart;
// `lead` bytes from one 64 columns of B to the next.
__device__ __forceinline__ unsigned long long Operand(unsigned address, unsigned lead) {
  return static_cast<unsigned long long>((address & 0x3FFFF) >> 4) |
         static_cast<unsigned long long>(lead >> 4) << 16 |
         static_cast<unsigned long long>(1024 >> 4) << 32 | 1ULL << 62;
}

#define F4(i) "+f"(acc[i]), "+f"(acc[i + 1]), "+f"(acc[i + 2]), "+f"(acc[i + 3])
#define F16(i) F4(i), F4(i + 4), F4(i + 8), F4(i + 12)
#define F32(i) F16(i), F16(i + 16)
#define N32                                                                                        \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25," \
  "%26,%27,%28,%29,%30,%31"
#define N64                                                                                        \
  N32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%" \
      "54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define N96                                                                                        \
  N64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%" \
      "86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define N128                                                                                     \
  N96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%" \
      "114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
// Both operands' signs kept, A by rows of depths, B by rows of columns.
#define WGMMA(n, type, list, last, ...)                                                        \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" list "}, " \
               last:__VA_ARGS__                                                                \
               : "l"(a), "l"(b))
#define WGMMA_FOR(n, list, last, ...)          \
  if (IsBrain<T>::kValue) {                    \
    WGMMA(n, "bf16", list, last, __VA_ARGS__); \
  } else {                                     \
    WGMMA(n, "f16", list, last, __VA_ARGS__);  \
  }

template <typename T>
struct IsBrain {
  enum : int { kValue = 0 };
};
template <>
struct IsBrain<__nv_bfloat16> {
  enum : int { kValue = 1 };
};

template <typename T, int kN>
struct Product;
template <typename T>
struct Product<T, 64> {
  static __device__ __forceinline__ void Add(float (&acc)[32], unsigned long long a,
                                             unsigned long long b) {
    WGMMA_FOR(64, N32, "%32, %33, 1, 1, 1, 0, 1;", F32(0))
  }
};
#define TWO F32(0), F32(32)
#define THREE F32(0), F32(32), F32(64)
#define FOUR F32(0), F32(32), F32(64), F32(96)
template <typename T>
struct Product<T, 128> {
  static __device__ __forceinline__ void Add(float (&acc)[64], unsigned long long a,
                                             unsigned long long b) {
    WGMMA_FOR(128, N64, "%64, %65, 1, 1, 1, 0, 1;", TWO)
  }
};
template <typename T>
struct Product<T, 192> {
  static __device__ __forceinline__ void Add(float (&acc)[96], unsigned long long a,
                                             unsigned long long b) {
    WGMMA_FOR(192, N96, "%96, %97, 1, 1, 1, 0, 1;", THREE)
  }
};
template <typename T>
struct Product<T, 256> {
  static __device__ __forceinline__ void Add(float (&acc)[128], unsigned long long a,
                                             unsigned long long b) {
    WGMMA_FOR(256, N128, "%128, %129, 1, 1, 1, 0, 1;", FOUR)
  }
};

// Starts the products of one shared tile.
template <typename T, int kM, int kN, int kRows>
__device__ __forceinline__ void Multiply(float (&sums)[kRows][kN / 2], const char* tile,
                                         int group) {
  const unsigned a =
      static_cast<unsigned>(__cvta_generic_to_shared(tile)) + group * kRows * 64 * kRowBytes;
  const unsigned b =
      static_cast<unsigned>(__cvta_generic_to_shared(tile)) + TileOf<kM, kN>::kABytes;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int step = 0; step < kDepth / 16; ++step) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      Product<T, kN>::Add(sums[i], Operand(a + i * 64 * kRowBytes + step * 32, 16),
                          Operand(b + step * 16 * kRowBytes, kDepth * kRowBytes));
    }
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Until but kPending of the started groups of products are done.
template <int kPending, int kRows, int kCount>
__device__ __forceinline__ void Multiplied(float (&sums)[kRows][kCount]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
  if (kPending == 0) {
#pragma unroll
    for (int i = 0; i < kRows * kCount; ++i)
      asm volatile("" : "+f"(sums[i / kCount][i % kCount])::"memory");
  }
}

#else

// The same from the same places, each thread the results that wgmma gives it.
template <typename T, int kM, int kN, int kRows>
__device__ __forceinline__ void Multiply(float (&sums)[kRows][kN / 2], const char* tile,
                                         int group) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % kGroupThreads / 32;
  const char* b = tile + TileOf<kM, kN>::kABytes;
  for (int i = 0; i < kRows; ++i) {
    for (int at = 0; at < kN / 2; ++at) {
      const int row = (group * kRows + i) * 64 + warp * 16 + lane / 4 + at / 2 % 2 * 8;
      const int col = at / 4 * 8 + lane % 4 * 2 + at % 2;
      float sum = sums[i][at];
      for (int depth = 0; depth < kDepth; ++depth) {
        const T left = *reinterpret_cast<const T*>(tile + Swizzled(row, depth / 8) + depth % 8 * 2);
        const T right = *reinterpret_cast<const T*>(b + col / 64 * (kDepth * kRowBytes) +
                                                    Swizzled(depth, col % 64 / 8) + col % 8 * 2);
        sum += ToFloat(left) * ToFloat(right);
      }
      sums[i][at] = sum;
    }
  }
}
template <int kPending, int kRows, int kCount>
__device__ __forceinline__ void Multiplied(float (&)[kRows][kCount]) {}

#endif

// The tile of a block: those of GROUP rows of tiles follow one another, so that they share B in
// cache.
template <int kM, int kN>
__device__ __forceinline__ void Place(int m, int n, int* row0, int* col0) {
  const int tile_rows = (m + kM - 1) / kM, tile_cols = (n + kN - 1) / kN;
  const int band = blockIdx.x / (GROUP * tile_cols), place = blockIdx.x % (GROUP * tile_cols);
  const int height = tile_rows - band * GROUP < GROUP ? tile_rows - band * GROUP : GROUP;
  *row0 = (band * GROUP + place % height) * kM;
  *col0 = place / height * kN;
}

template <typename T>
struct alignas(4) Pair {
  T at[2];
};

template <typename T>
__device__ __forceinline__ unsigned PairOf(float x, float y) {
  T pair[2];
  Put(pair, x);
  Put(pair + 1, y);
  return static_cast<unsigned>(*reinterpret_cast<const unsigned short*>(pair)) |
         static_cast<unsigned>(*reinterpret_cast<const unsigned short*>(pair + 1)) << 16;
}

struct alignas(16) Words {
  unsigned at[4];
};

// Four threads that share a row turn 4 pairs of columns each into 8 neighbouring columns each.
__device__ __forceinline__ Words Turn(const unsigned (&from)[4], int quad) {
  Words to;
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    // Sends what the partner keeps: pair number `partner`, which the partner has at this thread's
    // place.
    const int partner = quad ^ step;
    unsigned sent = from[0];
#pragma unroll
    for (int i = 1; i < 4; ++i) sent = partner == i ? from[i] : sent;
    const unsigned got = __shfl_xor_sync(0xffffffffu, sent, step);
#pragma unroll
    for (int i = 0; i < 4; ++i) to.at[i] = partner == i ? got : to.at[i];
  }
  return to;
}

// alpha sums + beta C, written 16 bytes at a time where rows are whole numbers of those.
template <typename T, int kM, int kN, int kRows>
__device__ __forceinline__ void Write(const float (&sums)[kRows][kN / 2], const T* c, T* d,
                                      int row0, int col0, int m, int n, float alpha, float beta,
                                      int group) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % kGroupThreads / 32, quad = lane % 4;
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + (group * kRows + i) * 64 + warp * 16 + lane / 4 + half * 8;
      const long long start = static_cast<long long>(row) * n;
#pragma unroll
      for (int block = 0; block < kN / 32; ++block) {
        unsigned pairs[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int at = (block * 4 + j) * 4 + half * 2,
                    col = col0 + (block * 4 + j) * 8 + quad * 2;
          float x = alpha * sums[i][at], y = alpha * sums[i][at + 1];
          if (beta != 0.0f && row < m && col < n) {  // Without beta, c may hold anything.
            if (n % 2 == 0) {
              const Pair<T> old = *reinterpret_cast<const Pair<T>*>(c + start + col);
              x += beta * ToFloat(old.at[0]);
              y += beta * ToFloat(old.at[1]);
            } else {
              x += beta * ToFloat(c[start + col]);
              if (col + 1 < n) y += beta * ToFloat(c[start + col + 1]);
            }
          }
          pairs[j] = PairOf<T>(x, y);
          if (n % 8 == 0 || row >= m) continue;
          if (n % 2 == 0) {
            if (col < n) *reinterpret_cast<unsigned*>(d + start + col) = pairs[j];
          } else {
            if (col < n) Put(d + start + col, x);
            if (col + 1 < n) Put(d + start + col + 1, y);
          }
        }
        if (n % 8 != 0) continue;
        const Words words = Turn(pairs, quad);
        const int col = col0 + block * 32 + quad * 8;
        if (row < m && col < n) *reinterpret_cast<Words*>(d + start + col) = words;
      }
    }
  }
}

// kA and kB: bytes that the rows of A and of B are whole numbers of, 16, 4 or 2.
template <typename T, int kM, int kN, int kRows, int kStages, int kA, int kB>
__global__ void __launch_bounds__(kM / kRows * 2, kRows* kN <= 128 ? 2 : 1)
    gemm_ring(const T* a, const T* b, const T* c, T* d, int m, int n, int k, float alpha,
              float beta) {
  extern __shared__ char shared_bytes[];
  using Tile = TileOf<kM, kN>;
  constexpr int kThreads = kM / kRows * 2, kAhead = kStages - 2;
  char* ring = Ring(shared_bytes);
  const int tid = threadIdx.x, group = threadIdx.x / kGroupThreads;
  int row0, col0;
  Place<kM, kN>(m, n, &row0, &col0);
  const int steps = (k + kDepth - 1) / kDepth;
  float sums[kRows][kN / 2];
#pragma unroll
  for (int i = 0; i < kRows * kN / 2; ++i) sums[i / (kN / 2)][i % (kN / 2)] = 0.0f;
#pragma unroll
  for (int step = 0; step < kAhead; ++step) {
    char* tile = ring + step * Tile::kBytes;
    FillRows<kM, kThreads, kA>(tile, a, row0, step * kDepth, m, k, tid);
    FillColumns<kN, kThreads, kB>(tile + Tile::kABytes, b, step * kDepth, col0, k, n, tid);
    Commit();
  }
  int stage = 0, ahead = kAhead;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    Arrived<kAhead - 1>();
    __syncthreads();  // All have it, and all are done with the tile before the previous one.
    Multiply<T, kM, kN, kRows>(sums, ring + stage * Tile::kBytes, group);
    // Behind the last tile these are zeros: conditions make the compiler serialize the products.
    char* tile = ring + ahead * Tile::kBytes;
    FillRows<kM, kThreads, kA>(tile, a, row0, (step + kAhead) * kDepth, m, k, tid);
    FillColumns<kN, kThreads, kB>(tile + Tile::kABytes, b, (step + kAhead) * kDepth, col0, k, n,
                                  tid);
    Commit();
    Multiplied<1>(sums);
    stage = stage + 1 == kStages ? 0 : stage + 1;
    ahead = ahead + 1 == kStages ? 0 : ahead + 1;
  }
  Multiplied<0>(sums);
  Write<T, kM, kN, kRows>(sums, c, d, row0, col0, m, n, alpha, beta, group);
}
