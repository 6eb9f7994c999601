// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a kernel module compiled for the cpu target and the device that runs it agree on. Plain
// C-like declarations: the compiler embeds this file and kernels include it as <fettle_cpu_abi.h>.

#include <stddef.h>
#include <stdint.h>

#define FETTLE_CPU_ABI 1

struct fettle_uint3 {
  unsigned x, y, z;
};

// One kernel of a module, exported under the symbol that CompileResult::symbols names.
struct fettle_cpu_entry {
  const char* name;  // The name expression, "softmax<float>".
  int argument_count;
  const int* argument_bytes;         // Size of each argument.
  void (*thread)(void** arguments);  // Runs one GPU thread: the body of a fiber.
  void (*loop)(void** arguments);    // Runs all threads of a block one after the other; null when
                                     // the kernel may wait (barriers, warp operations).
};

// Facts of the module, exported as `fettle_cpu_module_info`.
struct fettle_cpu_module {
  int abi;    // FETTLE_CPU_ABI
  int check;  // 1: instrumented for the checking runtime.
  int lanes;  // Width of a warp: 32 or 64.
  // Fast mode: give the calling OS thread its launch and its block. Check mode: null.
  void (*set_launch)(const unsigned block[3], const unsigned grid[3], void* dynamic_shared);
  void (*set_block)(unsigned x, unsigned y, unsigned z);
};

// Kinds of warp reductions and of barriers with a predicate.
enum fettle_cpu_reduction {
  FETTLE_RED_ADD,
  FETTLE_RED_MIN,
  FETTLE_RED_MAX,
  FETTLE_RED_AND,
  FETTLE_RED_OR,
  FETTLE_RED_XOR,
  FETTLE_RED_UMIN,
  FETTLE_RED_UMAX
};
enum fettle_cpu_vote { FETTLE_VOTE_COUNT, FETTLE_VOTE_AND, FETTLE_VOTE_OR };

// The program that loads the module provides these (device/cpu_runtime.cc). `line` is the source
// line of the call. Warp operations take the mask of lanes that must take part; 0 stands for "the
// lanes that are converged here".
extern "C" {
struct fettle_uint3 fettle_rt_thread_index(void) __attribute__((pure));
struct fettle_uint3 fettle_rt_block_index(void) __attribute__((pure));
struct fettle_uint3 fettle_rt_block_size(void) __attribute__((const));
struct fettle_uint3 fettle_rt_grid_size(void) __attribute__((const));
unsigned fettle_rt_lane(void) __attribute__((pure));
void* fettle_rt_dynamic_shared(void) __attribute__((const));
// x, y, z and the linear index of the thread that a fiber begins.
void fettle_rt_begin_thread(unsigned index[4]);

void fettle_rt_barrier(int line, const char* what);
int fettle_rt_barrier_vote(int predicate, int vote, int line);
uint64_t fettle_rt_shuffle(uint64_t value, int source_lane, uint64_t mask, int line);
uint64_t fettle_rt_ballot(int predicate, uint64_t mask, int line, uint64_t* active);
uint64_t fettle_rt_match(uint64_t value, uint64_t mask, int line);
uint64_t fettle_rt_reduce(uint64_t value, int reduction, uint64_t mask, int line);
void fettle_rt_warp_sync(uint64_t mask, int line);
void fettle_rt_grid_sync(int line);
void fettle_rt_fence(int scope);
// Ends the launch with an error, records a warning, records an atomic access (check mode).
void fettle_rt_trap(int line, const char* message);
void fettle_rt_note(int line, const char* message);
void fettle_rt_atomic(const volatile void* address, int size_bytes, void* pc);
unsigned long long fettle_rt_clock(void);
}
