// SPDX-License-Identifier: Apache-2.0
#pragma once

// Math, bit and type-punning intrinsics.

template <class A, class B>
using fettle_common = typename std::common_type<A, B>::type;
#define FETTLE_MIN_MAX(NAME, FLOATING, ORDER)                                             \
  template <class A, class B,                                                             \
            std::enable_if_t<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value, \
                             int> = 0>                                                    \
  FETTLE_INLINE fettle_common<A, B> NAME(A a, B b) {                                      \
    const fettle_common<A, B> x = a, y = b;                                               \
    if constexpr (std::is_floating_point<fettle_common<A, B>>::value)                     \
      return (fettle_common<A, B>)FLOATING(x, y);                                         \
    else                                                                                  \
      return x ORDER y ? x : y;                                                           \
  }
FETTLE_INLINE float fettle_fmin(float a, float b) { return __builtin_fminf(a, b); }
FETTLE_INLINE double fettle_fmin(double a, double b) { return __builtin_fmin(a, b); }
FETTLE_INLINE float fettle_fmax(float a, float b) { return __builtin_fmaxf(a, b); }
FETTLE_INLINE double fettle_fmax(double a, double b) { return __builtin_fmax(a, b); }
FETTLE_MIN_MAX(min, fettle_fmin, <)
FETTLE_MIN_MAX(max, fettle_fmax, >)

// glibc 2.41 and 2.42 declare functions of these names, so ours hide behind macros.
FETTLE_INLINE float fettle_rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
FETTLE_INLINE double fettle_rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
FETTLE_INLINE float fettle_rsqrt(float x) { return fettle_rsqrtf(x); }
FETTLE_INLINE float fettle_sinpif(float x) { return __builtin_sinf(x * 3.14159265358979f); }
FETTLE_INLINE float fettle_cospif(float x) { return __builtin_cosf(x * 3.14159265358979f); }
#define rsqrtf fettle_rsqrtf
#define rsqrt fettle_rsqrt
#define sinpif fettle_sinpif
#define cospif fettle_cospif
FETTLE_INLINE float rcbrtf(float x) { return 1.0f / __builtin_cbrtf(x); }
FETTLE_INLINE float __frsqrt_rn(float x) { return rsqrtf(x); }
FETTLE_INLINE float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
FETTLE_INLINE float __frcp_rn(float x) { return 1.0f / x; }
FETTLE_INLINE float __fdividef(float a, float b) { return a / b; }
FETTLE_INLINE float fdividef(float a, float b) { return a / b; }
FETTLE_INLINE float __fdiv_rn(float a, float b) { return a / b; }
FETTLE_INLINE float __fadd_rn(float a, float b) { return a + b; }
FETTLE_INLINE float __fsub_rn(float a, float b) { return a - b; }
FETTLE_INLINE float __fmul_rn(float a, float b) { return a * b; }
FETTLE_INLINE float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
FETTLE_INLINE double __dadd_rn(double a, double b) { return a + b; }
FETTLE_INLINE double __dmul_rn(double a, double b) { return a * b; }
FETTLE_INLINE double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
FETTLE_INLINE double __drcp_rn(double x) { return 1.0 / x; }
FETTLE_INLINE double __ddiv_rn(double a, double b) { return a / b; }
FETTLE_INLINE double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
FETTLE_INLINE float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
FETTLE_INLINE float normcdff(float x) { return 0.5f * erfcf(-x * 0.70710678118654752f); }
FETTLE_INLINE float rhypotf(float a, float b) { return 1.0f / hypotf(a, b); }

// glibc declares functions of these names, so ours hide behind macros.
FETTLE_INLINE float fettle_expf(float x) { return __builtin_expf(x); }
FETTLE_INLINE float fettle_exp10f(float x) { return ::exp10f(x); }
FETTLE_INLINE float fettle_logf(float x) { return __builtin_logf(x); }
FETTLE_INLINE float fettle_log2f(float x) { return __builtin_log2f(x); }
FETTLE_INLINE float fettle_log10f(float x) { return __builtin_log10f(x); }
FETTLE_INLINE float fettle_sinf(float x) { return __builtin_sinf(x); }
FETTLE_INLINE float fettle_cosf(float x) { return __builtin_cosf(x); }
FETTLE_INLINE float fettle_tanf(float x) { return __builtin_tanf(x); }
FETTLE_INLINE float fettle_powf(float x, float y) { return __builtin_powf(x, y); }
FETTLE_INLINE void fettle_sincosf(float x, float* s, float* c) {
  *s = __builtin_sinf(x);
  *c = __builtin_cosf(x);
}
#define __expf fettle_expf
#define __exp10f fettle_exp10f
#define __logf fettle_logf
#define __log2f fettle_log2f
#define __log10f fettle_log10f
#define __sinf fettle_sinf
#define __cosf fettle_cosf
#define __tanf fettle_tanf
#define __powf fettle_powf
#define __sincosf fettle_sincosf

template <class To, class From>
FETTLE_INLINE To fettle_pun(From from) {
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
FETTLE_INLINE int __float_as_int(float f) { return fettle_pun<int>(f); }
FETTLE_INLINE unsigned __float_as_uint(float f) { return fettle_pun<unsigned>(f); }
FETTLE_INLINE float __int_as_float(int i) { return fettle_pun<float>(i); }
FETTLE_INLINE float __uint_as_float(unsigned i) { return fettle_pun<float>(i); }
FETTLE_INLINE long long __double_as_longlong(double f) { return fettle_pun<long long>(f); }
FETTLE_INLINE double __longlong_as_double(long long i) { return fettle_pun<double>(i); }
FETTLE_INLINE int __float2int_rn(float f) { return (int)__builtin_rintf(f); }
FETTLE_INLINE int __float2int_rz(float f) { return (int)f; }
FETTLE_INLINE int __float2int_rd(float f) { return (int)__builtin_floorf(f); }
FETTLE_INLINE int __float2int_ru(float f) { return (int)__builtin_ceilf(f); }
FETTLE_INLINE unsigned __float2uint_rn(float f) { return (unsigned)__builtin_rintf(f); }
FETTLE_INLINE unsigned __float2uint_rz(float f) { return (unsigned)f; }
FETTLE_INLINE float __int2float_rn(int i) { return (float)i; }
FETTLE_INLINE float __uint2float_rn(unsigned i) { return (float)i; }
FETTLE_INLINE float __ll2float_rn(long long i) { return (float)i; }
FETTLE_INLINE double __int2double_rn(int i) { return (double)i; }
FETTLE_INLINE float __double2float_rn(double f) { return (float)f; }

FETTLE_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
FETTLE_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
FETTLE_INLINE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
FETTLE_INLINE int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
FETTLE_INLINE int __ffs(int x) { return __builtin_ffs(x); }
FETTLE_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
FETTLE_INLINE unsigned __brev(unsigned x) {
  x = ((x >> 1) & 0x55555555u) | ((x & 0x55555555u) << 1);
  x = ((x >> 2) & 0x33333333u) | ((x & 0x33333333u) << 2);
  x = ((x >> 4) & 0x0f0f0f0fu) | ((x & 0x0f0f0f0fu) << 4);
  return __builtin_bswap32(x);
}
FETTLE_INLINE unsigned long long __brevll(unsigned long long x) {
  return ((unsigned long long)__brev((unsigned)x) << 32) | __brev((unsigned)(x >> 32));
}
FETTLE_INLINE int __mul24(int a, int b) { return (int)((unsigned)a * (unsigned)b); }
FETTLE_INLINE unsigned __umul24(unsigned a, unsigned b) { return a * b; }
FETTLE_INLINE unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)(((unsigned long long)a * b) >> 32);
}
FETTLE_INLINE int __mulhi(int a, int b) { return (int)(((long long)a * b) >> 32); }
FETTLE_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
FETTLE_INLINE int __hadd(int a, int b) { return (a >> 1) + (b >> 1) + ((a & b) & 1); }
FETTLE_INLINE unsigned __usad(unsigned a, unsigned b, unsigned c) {
  return (a > b ? a - b : b - a) + c;
}
FETTLE_INLINE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = ((unsigned long long)b << 32) | a;
  unsigned result = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned pick = (selector >> (4 * i)) & 7;
    result |= (unsigned)((bytes >> (pick * 8)) & 0xff) << (8 * i);
  }
  return result;
}
FETTLE_INLINE unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s) {
  s &= 31;
  return s ? (hi << s) | (lo >> (32 - s)) : hi;
}
FETTLE_INLINE unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s) {
  s &= 31;
  return s ? (hi << (32 - s)) | (lo >> s) : lo;
}
FETTLE_INLINE int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; i++) c += (int)(int8_t)(a >> (8 * i)) * (int)(int8_t)(b >> (8 * i));
  return c;
}

// Loads and stores with cache hints: plain here.
#define FETTLE_LOAD_HINT(NAME)   \
  template <class T>             \
  FETTLE_INLINE T NAME(const T* p) { \
    return *p;                   \
  }
#define FETTLE_STORE_HINT(NAME)  \
  template <class T>             \
  FETTLE_INLINE void NAME(T* p, T v) { \
    *p = v;                      \
  }
FETTLE_LOAD_HINT(__ldg)
FETTLE_LOAD_HINT(__ldcs)
FETTLE_LOAD_HINT(__ldca)
FETTLE_LOAD_HINT(__ldcg)
FETTLE_LOAD_HINT(__ldlu)
FETTLE_LOAD_HINT(__ldcv)
FETTLE_STORE_HINT(__stcs)
FETTLE_STORE_HINT(__stcg)
FETTLE_STORE_HINT(__stwb)
FETTLE_STORE_HINT(__stwt)
#ifndef __clang__  // Clang has these itself.
FETTLE_LOAD_HINT(__builtin_nontemporal_load)
template <class T>
FETTLE_INLINE void __builtin_nontemporal_store(T v, T* p) {
  *p = v;
}
#endif
