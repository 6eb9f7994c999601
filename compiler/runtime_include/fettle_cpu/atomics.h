// SPDX-License-Identifier: Apache-2.0
#pragma once

// Atomic functions. In check mode blocks and threads take turns on one OS thread, so a plain update
// is atomic and only has to be announced.

#if FETTLE_CPU_CHECK
#define FETTLE_ATOMIC(T, NAME, RESULT)                                                   \
  FETTLE_UNCHECKED static inline __attribute__((noinline, unused)) T NAME(T* p, T v) {   \
    fettle_rt_atomic(p, sizeof(T), __builtin_return_address(0));                         \
    const T old = *p;                                                                    \
    *p = (T)(RESULT);                                                                    \
    return old;                                                                          \
  }
#define FETTLE_ATOMIC_CAS(T)                                                             \
  FETTLE_UNCHECKED static inline __attribute__((noinline, unused)) T atomicCAS(          \
      T* p, T expected, T v) {                                                           \
    fettle_rt_atomic(p, sizeof(T), __builtin_return_address(0));                         \
    const T old = *p;                                                                    \
    if (old == expected) *p = v;                                                         \
    return old;                                                                          \
  }
#else
#define FETTLE_ATOMIC(T, NAME, RESULT)                                                     \
  FETTLE_INLINE T NAME(T* p, T v) {                                                        \
    T old, changed;                                                                        \
    __atomic_load(p, &old, __ATOMIC_RELAXED);                                              \
    do {                                                                                   \
      changed = (T)(RESULT);                                                               \
    } while (!__atomic_compare_exchange(p, &old, &changed, true, __ATOMIC_SEQ_CST,         \
                                        __ATOMIC_RELAXED));                                \
    return old;                                                                            \
  }
#define FETTLE_ATOMIC_CAS(T)                                                               \
  FETTLE_INLINE T atomicCAS(T* p, T expected, T v) {                                       \
    __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    return expected;                                                                       \
  }
#endif

#define FETTLE_ATOMIC_INTEGER(T)                                \
  FETTLE_ATOMIC(T, atomicAdd, old + v)                          \
  FETTLE_ATOMIC(T, atomicSub, old - v)                          \
  FETTLE_ATOMIC(T, atomicAnd, old & v)                          \
  FETTLE_ATOMIC(T, atomicOr, old | v)                           \
  FETTLE_ATOMIC(T, atomicXor, old ^ v)                          \
  FETTLE_ATOMIC(T, atomicExch, v)                               \
  FETTLE_ATOMIC(T, atomicMin, old < v ? old : v)                \
  FETTLE_ATOMIC(T, atomicMax, old < v ? v : old)                \
  FETTLE_ATOMIC_CAS(T)
FETTLE_ATOMIC_INTEGER(int)
FETTLE_ATOMIC_INTEGER(unsigned)
FETTLE_ATOMIC_INTEGER(long long)
FETTLE_ATOMIC_INTEGER(unsigned long long)
FETTLE_ATOMIC_INTEGER(unsigned long)
FETTLE_ATOMIC_CAS(unsigned short)
FETTLE_ATOMIC(unsigned, atomicInc, old >= v ? 0u : old + 1)
FETTLE_ATOMIC(unsigned, atomicDec, old == 0 || old > v ? v : old - 1)

#define FETTLE_ATOMIC_FLOATING(T)                               \
  FETTLE_ATOMIC(T, atomicAdd, old + v)                          \
  FETTLE_ATOMIC(T, atomicSub, old - v)                          \
  FETTLE_ATOMIC(T, atomicExch, v)                               \
  FETTLE_ATOMIC(T, atomicMin, fettle_fmin(old, v))              \
  FETTLE_ATOMIC(T, atomicMax, fettle_fmax(old, v))
FETTLE_ATOMIC_FLOATING(float)
FETTLE_ATOMIC_FLOATING(double)
// By value semantics of a struct: through the bits, so that the compare is exact.
#define FETTLE_ATOMIC_HALF(T, BITS)                                                       \
  FETTLE_UNCHECKED static inline __attribute__((noinline, unused)) T atomicAdd(T* p, T v) { \
    fettle_rt_atomic(p, sizeof(T), __builtin_return_address(0));                          \
    BITS seen = __atomic_load_n((BITS*)p, __ATOMIC_RELAXED), changed;                     \
    T old;                                                                                \
    do {                                                                                  \
      __builtin_memcpy((void*)&old, &seen, sizeof seen);                                  \
      const T sum = old + v;                                                              \
      __builtin_memcpy(&changed, (const void*)&sum, sizeof changed);                      \
    } while (!__atomic_compare_exchange_n((BITS*)p, &seen, changed, true, __ATOMIC_SEQ_CST, \
                                          __ATOMIC_RELAXED));                             \
    return old;                                                                           \
  }
FETTLE_ATOMIC_HALF(__half, unsigned short)
FETTLE_ATOMIC_HALF(__half2, unsigned)
FETTLE_ATOMIC_HALF(__nv_bfloat16, unsigned short)
FETTLE_ATOMIC_HALF(__nv_bfloat162, unsigned)

#define FETTLE_ATOMIC_SCOPES(NAME)                     \
  template <class T, class V>                          \
  FETTLE_INLINE T NAME##_system(T* p, V v) {           \
    return NAME(p, (T)v);                              \
  }                                                    \
  template <class T, class V>                          \
  FETTLE_INLINE T NAME##_block(T* p, V v) {            \
    return NAME(p, (T)v);                              \
  }
FETTLE_ATOMIC_SCOPES(atomicAdd)
FETTLE_ATOMIC_SCOPES(atomicMin)
FETTLE_ATOMIC_SCOPES(atomicMax)
FETTLE_ATOMIC_SCOPES(atomicExch)
FETTLE_ATOMIC_SCOPES(atomicOr)
FETTLE_ATOMIC_SCOPES(atomicAnd)
template <class T>
FETTLE_INLINE T unsafeAtomicAdd(T* p, T v) {
  return atomicAdd(p, v);
}
template <class T>
FETTLE_INLINE T safeAtomicAdd(T* p, T v) {
  return atomicAdd(p, v);
}

#define __HIP_MEMORY_SCOPE_SINGLETHREAD 1
#define __HIP_MEMORY_SCOPE_WAVEFRONT 2
#define __HIP_MEMORY_SCOPE_WORKGROUP 3
#define __HIP_MEMORY_SCOPE_AGENT 4
#define __HIP_MEMORY_SCOPE_SYSTEM 5
#define __hip_atomic_fetch_add(p, v, order, scope) __atomic_fetch_add(p, v, order)
#define __hip_atomic_fetch_or(p, v, order, scope) __atomic_fetch_or(p, v, order)
#define __hip_atomic_exchange(p, v, order, scope) __atomic_exchange_n(p, v, order)
#define __hip_atomic_load(p, order, scope) __atomic_load_n(p, order)
#define __hip_atomic_store(p, v, order, scope) __atomic_store_n(p, v, order)
