// SPDX-License-Identifier: Apache-2.0
#pragma once

// float4 and its kin, make_*, and component-wise operators as HIP has them.

// Number of components (0: no vector type) and their type S.
template <class V>
struct fettle_vector : std::integral_constant<int, 0> {};

#define FETTLE_VECTOR_TRAIT(V, T, N)                                   \
  template <>                                                          \
  struct fettle_vector<V> : std::integral_constant<int, N> {           \
    typedef T S;                                                       \
  };
// Alignments of the 2- and 4-component types; the others have that of T.
#define FETTLE_VECTOR(T, N, ALIGN2, ALIGN4)                                          \
  struct N##1 {                                                                      \
    T x;                                                                             \
  };                                                                                 \
  struct __attribute__((aligned(ALIGN2))) N##2 {                                     \
    T x, y;                                                                          \
  };                                                                                 \
  FETTLE_VECTOR_3(T, N)                                                              \
  struct __attribute__((aligned(ALIGN4))) N##4 {                                     \
    T x, y, z, w;                                                                    \
  };                                                                                 \
  FETTLE_VECTOR_TRAIT(N##2, T, 2)                                                    \
  FETTLE_VECTOR_TRAIT(N##3, T, 3)                                                    \
  FETTLE_VECTOR_TRAIT(N##4, T, 4)                                                    \
  FETTLE_INLINE N##1 make_##N##1(T x) { return {x}; }                                \
  FETTLE_INLINE N##2 make_##N##2(T x, T y) { return {x, y}; }                        \
  FETTLE_INLINE N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; }                \
  FETTLE_INLINE N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define FETTLE_VECTOR_3(T, N) \
  struct N##3 {               \
    T x, y, z;                \
  };

FETTLE_VECTOR(float, float, 8, 16)
FETTLE_VECTOR(double, double, 16, 16)
FETTLE_VECTOR(int, int, 8, 16)
FETTLE_VECTOR(long, long, 16, 16)
FETTLE_VECTOR(unsigned long, ulong, 16, 16)
FETTLE_VECTOR(long long, longlong, 16, 16)
FETTLE_VECTOR(unsigned long long, ulonglong, 16, 16)
FETTLE_VECTOR(short, short, 4, 8)
FETTLE_VECTOR(unsigned short, ushort, 4, 8)
FETTLE_VECTOR(signed char, char, 2, 4)
FETTLE_VECTOR(unsigned char, uchar, 2, 4)
#undef FETTLE_VECTOR_3
#define FETTLE_VECTOR_3(T, N)  // uint3 is also the type of threadIdx (builtins.h).
FETTLE_VECTOR(unsigned, uint, 8, 16)

typedef unsigned int uint;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned long ulong;

// Templates, so that a non-template operator of the user's own wins.
#define FETTLE_IF_VECTOR(V) std::enable_if_t<fettle_vector<V>::value != 0, int> = 0
#define FETTLE_VECTOR_OPERATOR(op)                                                     \
  template <class V, FETTLE_IF_VECTOR(V)>                                              \
  FETTLE_INLINE V operator op(V a, V b) {                                              \
    a.x = a.x op b.x;                                                                  \
    a.y = a.y op b.y;                                                                  \
    if constexpr (fettle_vector<V>::value > 2) a.z = a.z op b.z;                       \
    if constexpr (fettle_vector<V>::value > 3) a.w = a.w op b.w;                       \
    return a;                                                                          \
  }                                                                                    \
  template <class V, FETTLE_IF_VECTOR(V)>                                              \
  FETTLE_INLINE V operator op(V a, typename fettle_vector<V>::S s) {                   \
    a.x = a.x op s;                                                                    \
    a.y = a.y op s;                                                                    \
    if constexpr (fettle_vector<V>::value > 2) a.z = a.z op s;                         \
    if constexpr (fettle_vector<V>::value > 3) a.w = a.w op s;                         \
    return a;                                                                          \
  }                                                                                    \
  template <class V, FETTLE_IF_VECTOR(V)>                                              \
  FETTLE_INLINE V operator op(typename fettle_vector<V>::S s, V a) {                   \
    a.x = s op a.x;                                                                    \
    a.y = s op a.y;                                                                    \
    if constexpr (fettle_vector<V>::value > 2) a.z = s op a.z;                         \
    if constexpr (fettle_vector<V>::value > 3) a.w = s op a.w;                         \
    return a;                                                                          \
  }                                                                                    \
  template <class V, FETTLE_IF_VECTOR(V)>                                              \
  FETTLE_INLINE V& operator op##=(V & a, V b) {                                        \
    return a = a op b;                                                                 \
  }                                                                                    \
  template <class V, FETTLE_IF_VECTOR(V)>                                              \
  FETTLE_INLINE V& operator op##=(V & a, typename fettle_vector<V>::S s) {             \
    return a = a op s;                                                                 \
  }
FETTLE_VECTOR_OPERATOR(+)
FETTLE_VECTOR_OPERATOR(-)
FETTLE_VECTOR_OPERATOR(*)
FETTLE_VECTOR_OPERATOR(/)
