// The HIP device API for plain clang, where no ROCm is installed: enough for ordinary kernels to
// become code objects for gfx90a, gfx942 and gfx950. Waves have 64 lanes.
//
// Single-precision functions come from the backend's own expansions of LLVM intrinsics; powf, tanhf
// and erff are short formulas of ours (relative error up to about 1e-5, 1e-6 and 1e-6). Missing:
// double-precision transcendentals, printf output, textures, the device heap. Code made with this
// header has been compiled, and never been run on a GPU.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) alignas(n)
#define __grid_constant__
#define FETTLE_FN __device__ inline __attribute__((always_inline))

// As HIP has it: the second argument is the least number of waves per SIMD.
#define FETTLE_BOUNDS_1(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define FETTLE_BOUNDS_2(threads, waves) \
  __attribute__((amdgpu_flat_work_group_size(1, threads), amdgpu_waves_per_eu(waves)))
#define FETTLE_BOUNDS_OF(_1, _2, name, ...) name
#define __launch_bounds__(...) \
  FETTLE_BOUNDS_OF(__VA_ARGS__, FETTLE_BOUNDS_2, FETTLE_BOUNDS_1, )(__VA_ARGS__)

typedef __SIZE_TYPE__ size_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#define __HIP_PLATFORM_AMD__ 1
#ifndef __HIP_DEVICE_COMPILE__
#define __HIP_DEVICE_COMPILE__ 1
#endif
#define HIP_VERSION 70200000

// ---- coordinates: properties that call a builtin (-fdeclspec)

#define FETTLE_COORDINATES(type, name, X, Y, Z)  \
  struct type {                                  \
    __declspec(property(get = gx)) unsigned x;   \
    __declspec(property(get = gy)) unsigned y;   \
    __declspec(property(get = gz)) unsigned z;   \
    FETTLE_FN static unsigned gx() { return X; } \
    FETTLE_FN static unsigned gy() { return Y; } \
    FETTLE_FN static unsigned gz() { return Z; } \
  };                                             \
  extern const __device__ __attribute__((weak)) type name;
FETTLE_COORDINATES(fettle_thread_idx, threadIdx, __builtin_amdgcn_workitem_id_x(),
                   __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z())
FETTLE_COORDINATES(fettle_block_idx, blockIdx, __builtin_amdgcn_workgroup_id_x(),
                   __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z())
FETTLE_COORDINATES(fettle_block_dim, blockDim, __builtin_amdgcn_workgroup_size_x(),
                   __builtin_amdgcn_workgroup_size_y(), __builtin_amdgcn_workgroup_size_z())
FETTLE_COORDINATES(fettle_grid_dim, gridDim,
                   __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(),
                   __builtin_amdgcn_grid_size_y() / __builtin_amdgcn_workgroup_size_y(),
                   __builtin_amdgcn_grid_size_z() / __builtin_amdgcn_workgroup_size_z())
#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
static constexpr int fettle_wave = 64;
#define warpSize fettle_wave

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};

// ---- vector types

#define FETTLE_VECTORS(T, name, align2, align4)                         \
  struct name##1 {                                                      \
    T x;                                                                \
  };                                                                    \
  struct alignas(align2) name##2 {                                      \
    T x, y;                                                             \
  };                                                                    \
  struct name##3 {                                                      \
    T x, y, z;                                                          \
  };                                                                    \
  struct alignas(align4) name##4 {                                      \
    T x, y, z, w;                                                       \
  };                                                                    \
  FETTLE_FN name##1 make_##name##1(T x) { return {x}; }                 \
  FETTLE_FN name##2 make_##name##2(T x, T y) { return {x, y}; }         \
  FETTLE_FN name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  FETTLE_FN name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
FETTLE_VECTORS(char, char, 2, 4)
FETTLE_VECTORS(unsigned char, uchar, 2, 4)
FETTLE_VECTORS(short, short, 4, 8)
FETTLE_VECTORS(unsigned short, ushort, 4, 8)
FETTLE_VECTORS(int, int, 8, 16)
FETTLE_VECTORS(unsigned, uint, 8, 16)
FETTLE_VECTORS(long, long, 16, 16)
FETTLE_VECTORS(unsigned long, ulong, 16, 16)
FETTLE_VECTORS(long long, longlong, 16, 16)
FETTLE_VECTORS(unsigned long long, ulonglong, 16, 16)
FETTLE_VECTORS(float, float, 8, 16)
FETTLE_VECTORS(double, double, 16, 16)

#define FETTLE_VECTOR_OPERATOR(T, op)                                                          \
  FETTLE_FN T##2 operator op(T##2 a, T##2 b) { return {a.x op b.x, a.y op b.y}; }              \
  FETTLE_FN T##4 operator op(T##4 a, T##4 b) {                                                 \
    return {a.x op b.x, a.y op b.y, a.z op b.z, a.w op b.w};                                   \
  }                                                                                            \
  FETTLE_FN T##2 operator op(T##2 a, T b) { return {a.x op b, a.y op b}; }                     \
  FETTLE_FN T##4 operator op(T##4 a, T b) { return {a.x op b, a.y op b, a.z op b, a.w op b}; } \
  FETTLE_FN T##2 & operator op##=(T##2 & a, T##2 b) { return a = a op b; }                     \
  FETTLE_FN T##4 & operator op##=(T##4 & a, T##4 b) { return a = a op b; }
FETTLE_VECTOR_OPERATOR(float, +)
FETTLE_VECTOR_OPERATOR(float, -)
FETTLE_VECTOR_OPERATOR(float, *)
FETTLE_VECTOR_OPERATOR(int, +)
FETTLE_VECTOR_OPERATOR(int, -)
FETTLE_VECTOR_OPERATOR(int, *)

// ---- barriers and fences

FETTLE_FN void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
// Barriers that also count: every thread of the block must reach them.
FETTLE_FN int __syncthreads_count(int p) {
  static __attribute__((shared)) int votes;
  const bool first = __builtin_amdgcn_workitem_id_x() == 0 &&
                     __builtin_amdgcn_workitem_id_y() == 0 && __builtin_amdgcn_workitem_id_z() == 0;
  __syncthreads();
  if (first) votes = 0;
  __syncthreads();
  if (p != 0) __hip_atomic_fetch_add(&votes, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  __syncthreads();
  return votes;
}
FETTLE_FN int __syncthreads_or(int p) { return __syncthreads_count(p) != 0; }
FETTLE_FN int __syncthreads_and(int p) { return __syncthreads_count(p == 0) == 0; }
FETTLE_FN void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
FETTLE_FN void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
FETTLE_FN void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }
FETTLE_FN long long clock64() { return static_cast<long long>(__builtin_readcyclecounter()); }
FETTLE_FN long long clock() { return clock64(); }
FETTLE_FN long long wall_clock64() {
  return static_cast<long long>(__builtin_amdgcn_s_memrealtime());
}
FETTLE_FN void __trap() { __builtin_trap(); }
#define assert(condition) ((condition) ? (void)0 : __builtin_trap())
template <class... A>
FETTLE_FN int printf(const char*, A...) {
  return 0;
}

// ---- bits

FETTLE_FN int __popc(unsigned v) { return __builtin_popcount(v); }
FETTLE_FN int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
FETTLE_FN int __clz(int v) { return v == 0 ? 32 : __builtin_clz(static_cast<unsigned>(v)); }
FETTLE_FN int __clzll(long long v) {
  return v == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(v));
}
FETTLE_FN int __ffs(int v) { return __builtin_ffs(v); }
FETTLE_FN int __ffsll(long long v) { return __builtin_ffsll(v); }
FETTLE_FN unsigned __brev(unsigned v) { return __builtin_bitreverse32(v); }
FETTLE_FN unsigned long long __brevll(unsigned long long v) { return __builtin_bitreverse64(v); }
FETTLE_FN unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
FETTLE_FN int __mulhi(int a, int b) {
  return static_cast<int>(static_cast<long long>(a) * b >> 32);
}
FETTLE_FN int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
FETTLE_FN int __float_as_int(float v) { return __builtin_bit_cast(int, v); }
FETTLE_FN unsigned __float_as_uint(float v) { return __builtin_bit_cast(unsigned, v); }
FETTLE_FN float __int_as_float(int v) { return __builtin_bit_cast(float, v); }
FETTLE_FN float __uint_as_float(unsigned v) { return __builtin_bit_cast(float, v); }
FETTLE_FN long long __double_as_longlong(double v) { return __builtin_bit_cast(long long, v); }
FETTLE_FN double __longlong_as_double(long long v) { return __builtin_bit_cast(double, v); }

// ---- waves

FETTLE_FN unsigned __lane_id() {
  return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
}
FETTLE_FN unsigned long long __ballot(int p) { return __builtin_amdgcn_ballot_w64(p != 0); }
FETTLE_FN int __any(int p) { return __ballot(p) != 0; }
FETTLE_FN int __all(int p) { return __ballot(p) == __ballot(1); }
template <class T>
FETTLE_FN T fettle_read_lane(T v, unsigned lane) {
  static_assert(sizeof(T) <= 16, "shuffles take values of up to 16 bytes");
  constexpr int kWords = (sizeof(T) + 3) / 4;
  int words[kWords] = {};
  __builtin_memcpy(words, &v, sizeof(T));
#pragma unroll
  for (int i = 0; i < kWords; ++i) {
    words[i] = __builtin_amdgcn_ds_bpermute(static_cast<int>(lane << 2), words[i]);
  }
  T out;
  __builtin_memcpy(&out, words, sizeof(T));
  return out;
}
template <class T>
FETTLE_FN T __shfl(T v, int lane, int width = 64) {
  const unsigned mask = static_cast<unsigned>(width) - 1u;
  return fettle_read_lane(v, (__lane_id() & ~mask) | (static_cast<unsigned>(lane) & mask));
}
template <class T>
FETTLE_FN T __shfl_up(T v, unsigned delta, int width = 64) {
  const unsigned self = __lane_id(), inside = self & (static_cast<unsigned>(width) - 1u);
  return fettle_read_lane(v, inside < delta ? self : self - delta);
}
template <class T>
FETTLE_FN T __shfl_down(T v, unsigned delta, int width = 64) {
  const unsigned self = __lane_id(), inside = self & (static_cast<unsigned>(width) - 1u);
  return fettle_read_lane(v, inside + delta >= static_cast<unsigned>(width) ? self : self + delta);
}
template <class T>
FETTLE_FN T __shfl_xor(T v, int lanes, int width = 64) {
  const unsigned self = __lane_id(), other = self ^ static_cast<unsigned>(lanes);
  const unsigned mask = static_cast<unsigned>(width) - 1u;
  return fettle_read_lane(v, (other & ~mask) > (self & ~mask) ? self : other);
}

// ---- atomics, relaxed, visible to the whole device

#define FETTLE_ATOMIC(name, builtin, T) \
  FETTLE_FN T name(T* p, T v) { return builtin(p, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); }
#define FETTLE_ATOMICS(T)                                                             \
  FETTLE_ATOMIC(atomicAdd, __hip_atomic_fetch_add, T)                                 \
  FETTLE_ATOMIC(atomicMax, __hip_atomic_fetch_max, T)                                 \
  FETTLE_ATOMIC(atomicMin, __hip_atomic_fetch_min, T)                                 \
  FETTLE_ATOMIC(atomicExch, __hip_atomic_exchange, T)                                 \
  FETTLE_FN T atomicCAS(T* p, T expected, T desired) {                                \
    __hip_atomic_compare_exchange_strong(p, &expected, desired, __ATOMIC_RELAXED,     \
                                         __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); \
    return expected;                                                                  \
  }
#define FETTLE_BIT_ATOMICS(T)                         \
  FETTLE_ATOMIC(atomicSub, __hip_atomic_fetch_sub, T) \
  FETTLE_ATOMIC(atomicAnd, __hip_atomic_fetch_and, T) \
  FETTLE_ATOMIC(atomicOr, __hip_atomic_fetch_or, T)   \
  FETTLE_ATOMIC(atomicXor, __hip_atomic_fetch_xor, T)
FETTLE_ATOMICS(int)
FETTLE_ATOMICS(unsigned)
FETTLE_ATOMICS(unsigned long long)
FETTLE_ATOMICS(long long)
FETTLE_BIT_ATOMICS(int)
FETTLE_BIT_ATOMICS(unsigned)
FETTLE_BIT_ATOMICS(unsigned long long)
FETTLE_ATOMIC(atomicAdd, __hip_atomic_fetch_add, float)
FETTLE_ATOMIC(atomicAdd, __hip_atomic_fetch_add, double)
FETTLE_ATOMIC(atomicExch, __hip_atomic_exchange, float)
FETTLE_FN float unsafeAtomicAdd(float* p, float v) { return atomicAdd(p, v); }

template <class T>
FETTLE_FN T __ldg(const T* p) {
  return *p;
}
template <class T>
FETTLE_FN T __ldcs(const T* p) {
  return *p;
}
template <class T>
FETTLE_FN T __ldcg(const T* p) {
  return *p;
}
template <class T>
FETTLE_FN void __stcs(T* p, T v) {
  *p = v;
}
template <class T>
FETTLE_FN void __stcg(T* p, T v) {
  *p = v;
}

// ---- arithmetic

#define FETTLE_MINMAX(T)                              \
  FETTLE_FN T min(T a, T b) { return b < a ? b : a; } \
  FETTLE_FN T max(T a, T b) { return a < b ? b : a; }
FETTLE_MINMAX(int)
FETTLE_MINMAX(unsigned)
FETTLE_MINMAX(long)
FETTLE_MINMAX(unsigned long)
FETTLE_MINMAX(long long)
FETTLE_MINMAX(unsigned long long)
FETTLE_FN int abs(int v) { return v < 0 ? -v : v; }
FETTLE_FN long long llabs(long long v) { return v < 0 ? -v : v; }

#define FETTLE_MATH1(name, builtin)                                               \
  FETTLE_FN float name##f(float x) { return __builtin_elementwise_##builtin(x); } \
  FETTLE_FN float name(float x) { return __builtin_elementwise_##builtin(x); }
#define FETTLE_MATH1_DOUBLE(name, builtin) \
  FETTLE_MATH1(name, builtin)              \
  FETTLE_FN double name(double x) { return __builtin_elementwise_##builtin(x); }
FETTLE_MATH1(exp, exp)
FETTLE_MATH1(exp2, exp2)
FETTLE_MATH1(exp10, exp10)
FETTLE_MATH1(log, log)
FETTLE_MATH1(log2, log2)
FETTLE_MATH1(log10, log10)
FETTLE_MATH1(sin, sin)
FETTLE_MATH1(cos, cos)
FETTLE_MATH1_DOUBLE(sqrt, sqrt)
FETTLE_MATH1_DOUBLE(floor, floor)
FETTLE_MATH1_DOUBLE(ceil, ceil)
FETTLE_MATH1_DOUBLE(trunc, trunc)
FETTLE_MATH1_DOUBLE(rint, rint)
FETTLE_MATH1_DOUBLE(round, round)
FETTLE_MATH1_DOUBLE(fabs, abs)
FETTLE_FN float abs(float x) { return fabsf(x); }
FETTLE_FN double abs(double x) { return fabs(x); }
FETTLE_FN float fmaf(float a, float b, float c) { return __builtin_elementwise_fma(a, b, c); }
FETTLE_FN float fma(float a, float b, float c) { return __builtin_elementwise_fma(a, b, c); }
FETTLE_FN double fma(double a, double b, double c) { return __builtin_elementwise_fma(a, b, c); }
FETTLE_FN float fminf(float a, float b) { return __builtin_fminf(a, b); }
FETTLE_FN float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
FETTLE_FN double fmin(double a, double b) { return __builtin_fmin(a, b); }
FETTLE_FN double fmax(double a, double b) { return __builtin_fmax(a, b); }
FETTLE_FN float fmin(float a, float b) { return fminf(a, b); }
FETTLE_FN float fmax(float a, float b) { return fmaxf(a, b); }
FETTLE_FN float min(float a, float b) { return fminf(a, b); }
FETTLE_FN float max(float a, float b) { return fmaxf(a, b); }
FETTLE_FN double min(double a, double b) { return fmin(a, b); }
FETTLE_FN double max(double a, double b) { return fmax(a, b); }
FETTLE_FN float copysignf(float a, float b) { return __builtin_copysignf(a, b); }
FETTLE_FN float fmodf(float a, float b) { return __builtin_fmodf(a, b); }
FETTLE_FN float rsqrtf(float x) { return __builtin_amdgcn_rsqf(x); }
FETTLE_FN float rsqrt(float x) { return rsqrtf(x); }
FETTLE_FN double rsqrt(double x) { return 1.0 / sqrt(x); }
FETTLE_FN float nearbyintf(float x) { return rintf(x); }
FETTLE_FN float expm1f(float x) {
  return fabsf(x) < 0.03f ? x * (1.f + x * (0.5f + x * (1.f / 6.f + x * (1.f / 24.f))))
                          : expf(x) - 1.f;
}
FETTLE_FN float log1pf(float x) {
  return fabsf(x) < 0.01f ? x * (1.f - x * (0.5f - x * (1.f / 3.f - x * 0.25f))) : logf(1.f + x);
}
FETTLE_FN float powf(float x, float y) {
  const float magnitude = exp2f(y * log2f(fabsf(x)));
  const bool odd = truncf(y) == y && fmodf(fabsf(y), 2.f) == 1.f;
  return x < 0.f && odd ? -magnitude : magnitude;
}
FETTLE_FN float pow(float x, float y) { return powf(x, y); }
FETTLE_FN float tanhf(float x) {
  const float a = fabsf(x), q = a * a;
  const float small = a * (1.f + q * (-1.f / 3.f + q * (2.f / 15.f - q * (17.f / 315.f))));
  const float large = 1.f - 2.f / (expf(2.f * a) + 1.f);
  return copysignf(a < 0.1f ? small : large, x);
}
FETTLE_FN float tanh(float x) { return tanhf(x); }
FETTLE_FN float erff(float x) {
  const float a = fabsf(x), q = a * a;
  const float small = a * 1.128379167f *
                      (1.f + q * (-1.f / 3.f + q * (0.1f + q * (-1.f / 42.f + q * (1.f / 216.f)))));
  const float t = 1.f / (1.f + 0.5f * a);
  const float tail =
      t * expf(-q - 1.26551223f +
               t * (1.00002368f +
                    t * (0.37409196f +
                         t * (0.09678418f +
                              t * (-0.18628806f +
                                   t * (0.27886807f +
                                        t * (-1.13520398f +
                                             t * (1.48851587f +
                                                  t * (-0.82215223f + t * 0.17087277f)))))))));
  return copysignf(a < 0.4f ? small : 1.f - tail, x);
}
FETTLE_FN float erf(float x) { return erff(x); }
FETTLE_FN float nanf(const char*) { return __builtin_nanf(""); }
FETTLE_FN double nan(const char*) { return __builtin_nan(""); }
FETTLE_FN bool isnan(float x) { return __builtin_isnan(x); }
FETTLE_FN bool isinf(float x) { return __builtin_isinf(x); }
FETTLE_FN bool isfinite(float x) { return __builtin_isfinite(x); }
FETTLE_FN bool isnan(double x) { return __builtin_isnan(x); }
FETTLE_FN bool isinf(double x) { return __builtin_isinf(x); }
FETTLE_FN bool isfinite(double x) { return __builtin_isfinite(x); }

FETTLE_FN float __expf(float x) { return __builtin_amdgcn_exp2f(x * 1.442695041f); }
FETTLE_FN float __exp2f(float x) { return __builtin_amdgcn_exp2f(x); }
FETTLE_FN float __logf(float x) { return __builtin_amdgcn_logf(x) * 0.693147181f; }
FETTLE_FN float __log2f(float x) { return __builtin_amdgcn_logf(x); }
FETTLE_FN float __sinf(float x) { return sinf(x); }
FETTLE_FN float __cosf(float x) { return cosf(x); }
FETTLE_FN float __powf(float x, float y) { return powf(x, y); }
FETTLE_FN float __fdividef(float a, float b) { return a * __builtin_amdgcn_rcpf(b); }
FETTLE_FN float __frcp_rn(float x) { return 1.f / x; }
FETTLE_FN float __fsqrt_rn(float x) { return sqrtf(x); }
FETTLE_FN float __frsqrt_rn(float x) { return rsqrtf(x); }
FETTLE_FN float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
FETTLE_FN float __fadd_rn(float a, float b) { return a + b; }
FETTLE_FN float __fsub_rn(float a, float b) { return a - b; }
FETTLE_FN float __fmul_rn(float a, float b) { return a * b; }
FETTLE_FN float __fdiv_rn(float a, float b) { return a / b; }
FETTLE_FN float __saturatef(float x) { return fminf(fmaxf(x, 0.f), 1.f); }
FETTLE_FN int __float2int_rn(float x) { return static_cast<int>(rintf(x)); }
FETTLE_FN int __float2int_rz(float x) { return static_cast<int>(x); }
FETTLE_FN int __float2int_rd(float x) { return static_cast<int>(floorf(x)); }
FETTLE_FN float __int2float_rn(int x) { return static_cast<float>(x); }

// ---- half

struct alignas(2) __half {
  _Float16 data;
  __half() = default;
  FETTLE_FN __half(_Float16 v) : data(v) {}
  FETTLE_FN __half(float v) : data(static_cast<_Float16>(v)) {}
  FETTLE_FN explicit __half(double v) : data(static_cast<_Float16>(v)) {}
  FETTLE_FN explicit __half(int v) : data(static_cast<_Float16>(v)) {}
  FETTLE_FN explicit __half(unsigned v) : data(static_cast<_Float16>(v)) {}
  FETTLE_FN operator float() const { return static_cast<float>(data); }
};
typedef __half half;
#define FETTLE_HALF_OPERATOR(op)                                   \
  FETTLE_FN __half operator op(const __half& a, const __half& b) { \
    return __half(static_cast<_Float16>(a.data op b.data));        \
  }                                                                \
  FETTLE_FN __half& operator op##=(__half& a, const __half& b) { return a = a op b; }
FETTLE_HALF_OPERATOR(+)
FETTLE_HALF_OPERATOR(-)
FETTLE_HALF_OPERATOR(*)
FETTLE_HALF_OPERATOR(/)
#define FETTLE_HALF_COMPARE(op, name)                                                       \
  FETTLE_FN bool operator op(const __half& a, const __half& b) { return a.data op b.data; } \
  FETTLE_FN bool name(__half a, __half b) { return a.data op b.data; }
FETTLE_HALF_COMPARE(<, __hlt)
FETTLE_HALF_COMPARE(>, __hgt)
FETTLE_HALF_COMPARE(<=, __hle)
FETTLE_HALF_COMPARE(>=, __hge)
FETTLE_HALF_COMPARE(==, __heq)
FETTLE_HALF_COMPARE(!=, __hne)
FETTLE_FN __half operator-(const __half& a) { return __half(static_cast<_Float16>(-a.data)); }
FETTLE_FN __half __float2half(float v) { return __half(v); }
FETTLE_FN __half __float2half_rn(float v) { return __half(v); }
FETTLE_FN float __half2float(__half v) { return static_cast<float>(v.data); }
FETTLE_FN __half __int2half_rn(int v) { return __half(v); }
FETTLE_FN __half __hadd(__half a, __half b) { return a + b; }
FETTLE_FN __half __hsub(__half a, __half b) { return a - b; }
FETTLE_FN __half __hmul(__half a, __half b) { return a * b; }
FETTLE_FN __half __hdiv(__half a, __half b) { return a / b; }
FETTLE_FN __half __hneg(__half a) { return -a; }
FETTLE_FN __half __habs(__half a) { return a.data < 0 ? -a : a; }
FETTLE_FN __half __hfma(__half a, __half b, __half c) {
  return __half(__builtin_elementwise_fma(a.data, b.data, c.data));
}
FETTLE_FN __half __hmax(__half a, __half b) { return a < b ? b : a; }
FETTLE_FN __half __hmin(__half a, __half b) { return b < a ? b : a; }
FETTLE_FN __half hexp(__half a) { return __half(expf(a)); }
FETTLE_FN __half hlog(__half a) { return __half(logf(a)); }
FETTLE_FN __half hsqrt(__half a) { return __half(sqrtf(a)); }
FETTLE_FN __half hrsqrt(__half a) { return __half(rsqrtf(a)); }
FETTLE_FN __half hrcp(__half a) { return __half(1.f / static_cast<float>(a)); }
FETTLE_FN unsigned short __half_as_ushort(__half a) {
  return __builtin_bit_cast(unsigned short, a.data);
}
FETTLE_FN __half __ushort_as_half(unsigned short a) {
  return __half(__builtin_bit_cast(_Float16, a));
}

struct alignas(4) __half2 {
  __half x, y;
};
typedef __half2 half2;
FETTLE_FN __half2 make_half2(__half x, __half y) { return {x, y}; }
FETTLE_FN __half2 __halves2half2(__half x, __half y) { return {x, y}; }
FETTLE_FN __half2 __half2half2(__half x) { return {x, x}; }
FETTLE_FN __half2 __float2half2_rn(float v) { return {__half(v), __half(v)}; }
FETTLE_FN __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
FETTLE_FN __half2 __float22half2_rn(float2 v) { return {__half(v.x), __half(v.y)}; }
FETTLE_FN float2 __half22float2(__half2 v) { return {v.x, v.y}; }
FETTLE_FN __half __low2half(__half2 v) { return v.x; }
FETTLE_FN __half __high2half(__half2 v) { return v.y; }
FETTLE_FN float __low2float(__half2 v) { return v.x; }
FETTLE_FN float __high2float(__half2 v) { return v.y; }
FETTLE_FN __half2 __hadd2(__half2 a, __half2 b) { return {a.x + b.x, a.y + b.y}; }
FETTLE_FN __half2 __hsub2(__half2 a, __half2 b) { return {a.x - b.x, a.y - b.y}; }
FETTLE_FN __half2 __hmul2(__half2 a, __half2 b) { return {a.x * b.x, a.y * b.y}; }
FETTLE_FN __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
FETTLE_FN __half2 __hmax2(__half2 a, __half2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
FETTLE_FN __half2 operator+(__half2 a, __half2 b) { return __hadd2(a, b); }
FETTLE_FN __half2 operator-(__half2 a, __half2 b) { return __hsub2(a, b); }
FETTLE_FN __half2 operator*(__half2 a, __half2 b) { return __hmul2(a, b); }
