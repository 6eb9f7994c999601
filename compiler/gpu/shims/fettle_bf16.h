// bfloat16 for AMD in both spellings. hiprtc's built-in header has none.
#pragma once
#include "fettle_device.h"  // The device API: ours for clang, empty where hiprtc has its own.

// What nvcc and hipcc take from the C library.
#ifndef INFINITY
#define INFINITY __builtin_huge_valf()
#endif
#ifndef NAN
#define NAN __builtin_nanf("")
#endif

struct __hip_bfloat16 {
  unsigned short data;
  __hip_bfloat16() = default;
  // Rounds to nearest even; keeps NaN a NaN.
  __device__ __hip_bfloat16(float f) {
    const unsigned u = __builtin_bit_cast(unsigned, f);
    const bool is_nan = (u & 0x7fffffffu) > 0x7f800000u;
    data = static_cast<unsigned short>(is_nan ? (u >> 16) | 0x40u
                                              : (u + 0x7fffu + (u >> 16 & 1u)) >> 16);
  }
  __device__ explicit __hip_bfloat16(double d) : __hip_bfloat16(static_cast<float>(d)) {}
  __device__ explicit __hip_bfloat16(int i) : __hip_bfloat16(static_cast<float>(i)) {}
  __device__ operator float() const {
    return __builtin_bit_cast(float, static_cast<unsigned>(data) << 16);
  }
  __device__ __hip_bfloat16& operator+=(const __hip_bfloat16& b);
  __device__ __hip_bfloat16& operator-=(const __hip_bfloat16& b);
  __device__ __hip_bfloat16& operator*=(const __hip_bfloat16& b);
};
struct alignas(4) __hip_bfloat162 {
  __hip_bfloat16 x, y;
};
typedef __hip_bfloat16 __nv_bfloat16;
typedef __hip_bfloat162 __nv_bfloat162;

#define FETTLE_BF16_OPERATOR(op)                                                                   \
  __device__ inline __hip_bfloat16 operator op(const __hip_bfloat16& a, const __hip_bfloat16& b) { \
    return __hip_bfloat16(static_cast<float>(a) op static_cast<float>(b));                         \
  }
FETTLE_BF16_OPERATOR(+)
FETTLE_BF16_OPERATOR(-)
FETTLE_BF16_OPERATOR(*)
FETTLE_BF16_OPERATOR(/)
#undef FETTLE_BF16_OPERATOR
__device__ inline __hip_bfloat16& __hip_bfloat16::operator+=(const __hip_bfloat16& b) {
  return *this = *this + b;
}
__device__ inline __hip_bfloat16& __hip_bfloat16::operator-=(const __hip_bfloat16& b) {
  return *this = *this - b;
}
__device__ inline __hip_bfloat16& __hip_bfloat16::operator*=(const __hip_bfloat16& b) {
  return *this = *this * b;
}

__device__ inline float __bfloat162float(__hip_bfloat16 a) { return static_cast<float>(a); }
__device__ inline __hip_bfloat16 __float2bfloat16(float f) { return __hip_bfloat16(f); }
__device__ inline __hip_bfloat16 __float2bfloat16_rn(float f) { return __hip_bfloat16(f); }
__device__ inline __hip_bfloat16 __hadd(__hip_bfloat16 a, __hip_bfloat16 b) { return a + b; }
__device__ inline __hip_bfloat16 __hsub(__hip_bfloat16 a, __hip_bfloat16 b) { return a - b; }
__device__ inline __hip_bfloat16 __hmul(__hip_bfloat16 a, __hip_bfloat16 b) { return a * b; }
__device__ inline __hip_bfloat16 __hfma(__hip_bfloat16 a, __hip_bfloat16 b, __hip_bfloat16 c) {
  return __hip_bfloat16(__builtin_fmaf(a, b, c));
}
__device__ inline __hip_bfloat16 __hmax(__hip_bfloat16 a, __hip_bfloat16 b) {
  return __hip_bfloat16(__builtin_fmaxf(a, b));
}
__device__ inline __hip_bfloat16 __hmin(__hip_bfloat16 a, __hip_bfloat16 b) {
  return __hip_bfloat16(__builtin_fminf(a, b));
}
__device__ inline __hip_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return {__hip_bfloat16(x), __hip_bfloat16(y)};
}
__device__ inline __hip_bfloat162 __halves2bfloat162(__hip_bfloat16 x, __hip_bfloat16 y) {
  return {x, y};
}
__device__ inline float __low2float(__hip_bfloat162 v) { return v.x; }
__device__ inline float __high2float(__hip_bfloat162 v) { return v.y; }
__device__ inline float __bfloat16_as_float(__hip_bfloat16 a) { return a; }
__device__ inline unsigned short __bfloat16_as_ushort(__hip_bfloat16 a) { return a.data; }
__device__ inline __hip_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __hip_bfloat16 a;
  a.data = bits;
  return a;
}
