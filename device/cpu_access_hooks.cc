// SPDX-License-Identifier: Apache-2.0

// What -fsanitize=thread makes check builds call, so that every access of a kernel reaches the
// checker. Nothing here belongs to the TSan runtime, which is not linked.

#include <cstring>

#include "device/cpu_checker.h"

namespace fettle {
namespace {

inline void Note(const volatile void* address, std::size_t size, bool write, bool atomic,
                 void* pc) {
  if (CpuChecker* checker = CpuChecker::Current(); checker != nullptr) {
    checker->Access(reinterpret_cast<std::uintptr_t>(address), size, write, atomic, pc);
  }
}

}  // namespace

void LinkCpuUndefinedHooks();
// See LinkCpuRuntime.
void LinkCpuCheckHooks() { LinkCpuUndefinedHooks(); }

}  // namespace fettle

using fettle::Note;

#define FETTLE_CALLER __builtin_return_address(0)
#define FETTLE_ACCESS_HOOKS(SIZE)                                                           \
  void __tsan_read##SIZE(void* p) { Note(p, SIZE, false, false, FETTLE_CALLER); }           \
  void __tsan_write##SIZE(void* p) { Note(p, SIZE, true, false, FETTLE_CALLER); }           \
  void __tsan_unaligned_read##SIZE(void* p) { Note(p, SIZE, false, false, FETTLE_CALLER); } \
  void __tsan_unaligned_write##SIZE(void* p) { Note(p, SIZE, true, false, FETTLE_CALLER); } \
  void __tsan_volatile_read##SIZE(void* p) { Note(p, SIZE, false, false, FETTLE_CALLER); }  \
  void __tsan_volatile_write##SIZE(void* p) { Note(p, SIZE, true, false, FETTLE_CALLER); }  \
  void __tsan_unaligned_volatile_read##SIZE(void* p) {                                      \
    Note(p, SIZE, false, false, FETTLE_CALLER);                                             \
  }                                                                                         \
  void __tsan_unaligned_volatile_write##SIZE(void* p) {                                     \
    Note(p, SIZE, true, false, FETTLE_CALLER);                                              \
  }                                                                                         \
  void __tsan_read_write##SIZE(void* p) {                                                   \
    Note(p, SIZE, false, false, FETTLE_CALLER);                                             \
    Note(p, SIZE, true, false, FETTLE_CALLER);                                              \
  }                                                                                         \
  void __tsan_unaligned_read_write##SIZE(void* p) {                                         \
    Note(p, SIZE, false, false, FETTLE_CALLER);                                             \
    Note(p, SIZE, true, false, FETTLE_CALLER);                                              \
  }

// Check builds run on one OS thread, so plain updates are atomic.
#define FETTLE_ATOMIC_FETCH(BITS, T, NAME, OPERATOR)              \
  T __tsan_atomic##BITS##_fetch_##NAME(volatile T* a, T v, int) { \
    Note(a, BITS / 8, true, true, FETTLE_CALLER);                 \
    const T old = *a;                                             \
    *a = static_cast<T>(old OPERATOR v);                          \
    return old;                                                   \
  }
#define FETTLE_ATOMIC_CAS(BITS, T, NAME)                                                         \
  int __tsan_atomic##BITS##_compare_exchange_##NAME(volatile T* a, T* expected, T v, int, int) { \
    Note(a, BITS / 8, true, true, FETTLE_CALLER);                                                \
    const T old = *a;                                                                            \
    if (old != *expected) {                                                                      \
      *expected = old;                                                                           \
      return 0;                                                                                  \
    }                                                                                            \
    *a = v;                                                                                      \
    return 1;                                                                                    \
  }
#define FETTLE_ATOMIC_HOOKS(BITS, T)                                                       \
  T __tsan_atomic##BITS##_load(const volatile T* a, int) {                                 \
    Note(a, BITS / 8, false, true, FETTLE_CALLER);                                         \
    return *a;                                                                             \
  }                                                                                        \
  void __tsan_atomic##BITS##_store(volatile T* a, T v, int) {                              \
    Note(a, BITS / 8, true, true, FETTLE_CALLER);                                          \
    *a = v;                                                                                \
  }                                                                                        \
  T __tsan_atomic##BITS##_exchange(volatile T* a, T v, int) {                              \
    Note(a, BITS / 8, true, true, FETTLE_CALLER);                                          \
    const T old = *a;                                                                      \
    *a = v;                                                                                \
    return old;                                                                            \
  }                                                                                        \
  FETTLE_ATOMIC_FETCH(BITS, T, add, +)                                                     \
  FETTLE_ATOMIC_FETCH(BITS, T, sub, -)                                                     \
  FETTLE_ATOMIC_FETCH(BITS, T, and, &)                                                     \
  FETTLE_ATOMIC_FETCH(BITS, T, or, |)                                                      \
  FETTLE_ATOMIC_FETCH(BITS, T, xor, ^)                                                     \
  FETTLE_ATOMIC_CAS(BITS, T, strong)                                                       \
  FETTLE_ATOMIC_CAS(BITS, T, weak)                                                         \
  T __tsan_atomic##BITS##_compare_exchange_val(volatile T* a, T expected, T v, int, int) { \
    Note(a, BITS / 8, true, true, FETTLE_CALLER);                                          \
    const T old = *a;                                                                      \
    if (old == expected) *a = v;                                                           \
    return old;                                                                            \
  }

extern "C" {

FETTLE_ACCESS_HOOKS(1)
FETTLE_ACCESS_HOOKS(2)
FETTLE_ACCESS_HOOKS(4)
FETTLE_ACCESS_HOOKS(8)
FETTLE_ACCESS_HOOKS(16)
FETTLE_ATOMIC_HOOKS(8, std::uint8_t)
FETTLE_ATOMIC_HOOKS(16, std::uint16_t)
FETTLE_ATOMIC_HOOKS(32, std::uint32_t)
FETTLE_ATOMIC_HOOKS(64, std::uint64_t)
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}

void __tsan_read_range(void* p, std::size_t n) { Note(p, n, false, false, FETTLE_CALLER); }
void __tsan_write_range(void* p, std::size_t n) { Note(p, n, true, false, FETTLE_CALLER); }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

// Clang calls the first names; g++ leaves calls of unknown size alone, and the linker wraps them.
#define FETTLE_MEMORY_HOOKS(PREFIX)                                  \
  void* PREFIX##memcpy(void* to, const void* from, std::size_t n) {  \
    Note(from, n, false, false, FETTLE_CALLER);                      \
    Note(to, n, true, false, FETTLE_CALLER);                         \
    return std::memcpy(to, from, n);                                 \
  }                                                                  \
  void* PREFIX##memmove(void* to, const void* from, std::size_t n) { \
    Note(from, n, false, false, FETTLE_CALLER);                      \
    Note(to, n, true, false, FETTLE_CALLER);                         \
    return std::memmove(to, from, n);                                \
  }                                                                  \
  void* PREFIX##memset(void* to, int byte, std::size_t n) {          \
    Note(to, n, true, false, FETTLE_CALLER);                         \
    return std::memset(to, byte, n);                                 \
  }
FETTLE_MEMORY_HOOKS(__tsan_)
FETTLE_MEMORY_HOOKS(__wrap_)

}  // extern "C"
