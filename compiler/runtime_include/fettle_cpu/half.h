// SPDX-License-Identifier: Apache-2.0
#pragma once

// __half and __nv_bfloat16 / __hip_bfloat16: 16-bit storage; every operation computes in float and
// rounds its result to nearest even, as the scalar instructions of the GPUs do.

FETTLE_INLINE unsigned fettle_bits(float f) {
  unsigned u;
  __builtin_memcpy(&u, &f, 4);
  return u;
}
FETTLE_INLINE float fettle_from_bits(unsigned u) {
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f;
}

#if defined(__F16C__)
typedef float fettle_float4v __attribute__((vector_size(16)));
typedef short fettle_short8v __attribute__((vector_size(16)));
FETTLE_INLINE uint16_t fettle_to_half(float f) {
  const fettle_float4v v = {f, 0, 0, 0};
  return (uint16_t)((fettle_short8v)__builtin_ia32_vcvtps2ph(v, 0))[0];
}
FETTLE_INLINE float fettle_of_half(uint16_t u) {
  const fettle_short8v h = {(short)u, 0, 0, 0, 0, 0, 0, 0};
  return __builtin_ia32_vcvtph2ps(h)[0];
}
#else
FETTLE_INLINE float fettle_of_half(uint16_t h) {
  const unsigned sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023;
  if (exponent == 31) return fettle_from_bits(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float f = (float)mantissa * 5.9604644775390625e-08f;
    return sign ? -f : f;
  }
  return fettle_from_bits(sign | ((exponent + 112) << 23) | (mantissa << 13));
}
FETTLE_INLINE uint16_t fettle_to_half(float f) {
  unsigned x = fettle_bits(f);
  const unsigned sign = (x >> 16) & 0x8000u;
  x &= 0x7fffffffu;
  if (x > 0x7f800000u) return (uint16_t)(sign | 0x7e00);
  if (x >= 0x477ff000u) return (uint16_t)(sign | 0x7c00);
  if (x < 0x38800000u) {
    const float t = fettle_from_bits(x) + 0.5f;  // Rounds at the half's subnormal step.
    return (uint16_t)(sign | (fettle_bits(t) - 0x3f000000u));
  }
  x += 0xc8000fffu + ((x >> 13) & 1);
  return (uint16_t)(sign | (x >> 13));
}
#endif
FETTLE_INLINE uint16_t fettle_to_bfloat(float f) {
  unsigned u = fettle_bits(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40);
  u += 0x7fffu + ((u >> 16) & 1);
  return (uint16_t)(u >> 16);
}
FETTLE_INLINE float fettle_of_bfloat(uint16_t b) { return fettle_from_bits((unsigned)b << 16); }

#define FETTLE_HALF_COMPARE(N, op) \
  FETTLE_INLINE bool operator op(N a, N b) { return (float)a op(float) b; }
#define FETTLE_HALF_ARITHMETIC(N, op)                                             \
  FETTLE_INLINE N operator op(N a, N b) { return N((float)a op(float) b); }       \
  FETTLE_INLINE N& operator op##=(N & a, N b) { return a = a op b; }              \
  FETTLE_INLINE N##2 operator op(N##2 a, N##2 b) { return {a.x op b.x, a.y op b.y}; } \
  FETTLE_INLINE N##2& operator op##=(N##2 & a, N##2 b) { return a = a op b; }
#define FETTLE_HALF_TYPE(N, RAW, TO, OF)                                          \
  struct RAW {                                                                    \
    unsigned short x;                                                             \
  };                                                                              \
  struct N {                                                                      \
    uint16_t bits;                                                                \
    N() = default;                                                                \
    __forceinline__ N(float f) : bits(TO(f)) {}                                   \
    __forceinline__ N(double f) : bits(TO((float)f)) {}                           \
    __forceinline__ N(int f) : bits(TO((float)f)) {}                              \
    __forceinline__ N(unsigned f) : bits(TO((float)f)) {}                         \
    __forceinline__ N(long f) : bits(TO((float)f)) {}                             \
    __forceinline__ N(unsigned long f) : bits(TO((float)f)) {}                    \
    __forceinline__ N(long long f) : bits(TO((float)f)) {}                        \
    __forceinline__ N(unsigned long long f) : bits(TO((float)f)) {}               \
    __forceinline__ N(RAW r) : bits(r.x) {}                                       \
    __forceinline__ operator float() const { return OF(bits); }                   \
    __forceinline__ operator RAW() const { return {bits}; }                       \
    __forceinline__ N operator-() const {                                         \
      N r;                                                                        \
      r.bits = (uint16_t)(bits ^ 0x8000);                                         \
      return r;                                                                   \
    }                                                                             \
    __forceinline__ N operator+() const { return *this; }                         \
    __forceinline__ N& operator++() { return *this = N((float)*this + 1.f); }     \
  };                                                                              \
  struct __attribute__((aligned(4))) N##2 {                                       \
    N x, y;                                                                       \
    N##2() = default;                                                             \
    __forceinline__ N##2(N a, N b) : x(a), y(b) {}                                \
    __forceinline__ N##2 operator-() const { return {-x, -y}; }                   \
  };                                                                              \
  FETTLE_HALF_ARITHMETIC(N, +)                                                    \
  FETTLE_HALF_ARITHMETIC(N, -)                                                    \
  FETTLE_HALF_ARITHMETIC(N, *)                                                    \
  FETTLE_HALF_ARITHMETIC(N, /)                                                    \
  FETTLE_HALF_COMPARE(N, <)                                                       \
  FETTLE_HALF_COMPARE(N, >)                                                       \
  FETTLE_HALF_COMPARE(N, <=)                                                      \
  FETTLE_HALF_COMPARE(N, >=)                                                      \
  FETTLE_HALF_COMPARE(N, ==)                                                      \
  FETTLE_HALF_COMPARE(N, !=)
FETTLE_HALF_TYPE(__half, __half_raw, fettle_to_half, fettle_of_half)
FETTLE_HALF_TYPE(__nv_bfloat16, __nv_bfloat16_raw, fettle_to_bfloat, fettle_of_bfloat)

typedef __half half;
typedef __half2 half2;
typedef __nv_bfloat162 __nv_bfloat162_t;
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
typedef __nv_bfloat16 __hip_bfloat16;
typedef __nv_bfloat162 __hip_bfloat162;
typedef __nv_bfloat16 hip_bfloat16;

// One name for the functions that both types share; F is float, R the type, P its pair.
#define FETTLE_HALF_FUNCTIONS(R, P)                                                    \
  FETTLE_INLINE R __hadd(R a, R b) { return a + b; }                                   \
  FETTLE_INLINE R __hsub(R a, R b) { return a - b; }                                   \
  FETTLE_INLINE R __hmul(R a, R b) { return a * b; }                                   \
  FETTLE_INLINE R __hdiv(R a, R b) { return a / b; }                                   \
  FETTLE_INLINE R __hneg(R a) { return -a; }                                           \
  FETTLE_INLINE R __habs(R a) { return R(__builtin_fabsf((float)a)); }                 \
  FETTLE_INLINE R __hfma(R a, R b, R c) {                                              \
    return R((double)(float)a * (double)(float)b + (double)(float)c);                  \
  }                                                                                    \
  FETTLE_INLINE R __hmax(R a, R b) { return R(__builtin_fmaxf((float)a, (float)b)); }  \
  FETTLE_INLINE R __hmin(R a, R b) { return R(__builtin_fminf((float)a, (float)b)); }  \
  FETTLE_INLINE bool __heq(R a, R b) { return a == b; }                                \
  FETTLE_INLINE bool __hne(R a, R b) { return a != b; }                                \
  FETTLE_INLINE bool __hlt(R a, R b) { return a < b; }                                 \
  FETTLE_INLINE bool __hle(R a, R b) { return a <= b; }                                \
  FETTLE_INLINE bool __hgt(R a, R b) { return a > b; }                                 \
  FETTLE_INLINE bool __hge(R a, R b) { return a >= b; }                                \
  FETTLE_INLINE bool __hisnan(R a) { return (float)a != (float)a; }                    \
  FETTLE_INLINE int __hisinf(R a) { return __builtin_isinf_sign((float)a); }           \
  FETTLE_INLINE R hexp(R a) { return R(expf((float)a)); }                              \
  FETTLE_INLINE R hlog(R a) { return R(logf((float)a)); }                              \
  FETTLE_INLINE R hsqrt(R a) { return R(__builtin_sqrtf((float)a)); }                  \
  FETTLE_INLINE R hrsqrt(R a) { return R(1.0f / __builtin_sqrtf((float)a)); }          \
  FETTLE_INLINE R hrcp(R a) { return R(1.0f / (float)a); }                             \
  FETTLE_INLINE R htanh(R a) { return R(tanhf((float)a)); }                            \
  FETTLE_INLINE P __hadd2(P a, P b) { return a + b; }                                  \
  FETTLE_INLINE P __hsub2(P a, P b) { return a - b; }                                  \
  FETTLE_INLINE P __hmul2(P a, P b) { return a * b; }                                  \
  FETTLE_INLINE P __h2div(P a, P b) { return a / b; }                                  \
  FETTLE_INLINE P __hneg2(P a) { return -a; }                                          \
  FETTLE_INLINE P __hmax2(P a, P b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }   \
  FETTLE_INLINE P __hmin2(P a, P b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }   \
  FETTLE_INLINE P __hfma2(P a, P b, P c) {                                             \
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                             \
  }                                                                                    \
  FETTLE_INLINE P h2exp(P a) { return {hexp(a.x), hexp(a.y)}; }                        \
  FETTLE_INLINE P h2rsqrt(P a) { return {hrsqrt(a.x), hrsqrt(a.y)}; }
FETTLE_HALF_FUNCTIONS(__half, __half2)
FETTLE_HALF_FUNCTIONS(__nv_bfloat16, __nv_bfloat162)

FETTLE_INLINE float __half2float(__half h) { return (float)h; }
FETTLE_INLINE __half __float2half(float f) { return __half(f); }
FETTLE_INLINE __half __float2half_rn(float f) { return __half(f); }
FETTLE_INLINE __half __double2half(double f) { return __half(f); }
FETTLE_INLINE __half __int2half_rn(int i) { return __half(i); }
FETTLE_INLINE int __half2int_rn(__half h) { return (int)__builtin_rintf((float)h); }
FETTLE_INLINE int __half2int_rz(__half h) { return (int)(float)h; }
FETTLE_INLINE __half2 __float2half2_rn(float f) { return {__half(f), __half(f)}; }
FETTLE_INLINE float2 __half22float2(__half2 a) { return {(float)a.x, (float)a.y}; }
FETTLE_INLINE __half2 __floats2half2_rn(float a, float b) { return {__half(a), __half(b)}; }
FETTLE_INLINE __half2 __float22half2_rn(float2 a) { return {__half(a.x), __half(a.y)}; }
FETTLE_INLINE __half __low2half(__half2 a) { return a.x; }
FETTLE_INLINE __half __high2half(__half2 a) { return a.y; }
FETTLE_INLINE __half2 __low2half2(__half2 a) { return {a.x, a.x}; }
FETTLE_INLINE __half2 __high2half2(__half2 a) { return {a.y, a.y}; }
FETTLE_INLINE __half2 __halves2half2(__half a, __half b) { return {a, b}; }
FETTLE_INLINE __half2 __half2half2(__half a) { return {a, a}; }
FETTLE_INLINE __half2 make_half2(__half a, __half b) { return {a, b}; }
FETTLE_INLINE __half2 __lowhigh2highlow(__half2 a) { return {a.y, a.x}; }
FETTLE_INLINE float __low2float(__half2 a) { return (float)a.x; }
FETTLE_INLINE float __high2float(__half2 a) { return (float)a.y; }
FETTLE_INLINE unsigned short __half_as_ushort(__half h) { return h.bits; }
FETTLE_INLINE short __half_as_short(__half h) { return (short)h.bits; }
FETTLE_INLINE __half __ushort_as_half(unsigned short u) { return __half(__half_raw{u}); }
FETTLE_INLINE __half __short_as_half(short u) { return __half(__half_raw{(unsigned short)u}); }

FETTLE_INLINE float __bfloat162float(__nv_bfloat16 h) { return (float)h; }
FETTLE_INLINE __nv_bfloat16 __float2bfloat16(float f) { return __nv_bfloat16(f); }
FETTLE_INLINE __nv_bfloat16 __float2bfloat16_rn(float f) { return __nv_bfloat16(f); }
FETTLE_INLINE __nv_bfloat16 __double2bfloat16(double f) { return __nv_bfloat16(f); }
FETTLE_INLINE __nv_bfloat162 __float2bfloat162_rn(float f) {
  return {__nv_bfloat16(f), __nv_bfloat16(f)};
}
FETTLE_INLINE float2 __bfloat1622float2(__nv_bfloat162 a) { return {(float)a.x, (float)a.y}; }
FETTLE_INLINE __nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
  return {__nv_bfloat16(a), __nv_bfloat16(b)};
}
FETTLE_INLINE __nv_bfloat162 __float22bfloat162_rn(float2 a) {
  return {__nv_bfloat16(a.x), __nv_bfloat16(a.y)};
}
FETTLE_INLINE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
FETTLE_INLINE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
FETTLE_INLINE float __low2float(__nv_bfloat162 a) { return (float)a.x; }
FETTLE_INLINE float __high2float(__nv_bfloat162 a) { return (float)a.y; }
FETTLE_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return {a, a}; }
FETTLE_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
FETTLE_INLINE __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
FETTLE_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 h) { return h.bits; }
FETTLE_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short u) {
  return __nv_bfloat16(__nv_bfloat16_raw{u});
}
