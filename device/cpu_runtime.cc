// SPDX-License-Identifier: Apache-2.0

// The functions that kernels call (cpu_abi.h). They run inside a launch only: on the thread of a
// CpuBlockRunner.

#include <atomic>

#include "device/cpu_abi.h"
#include "device/cpu_block.h"
#include "device/cpu_checker.h"

namespace fettle {
namespace {

CpuBlockRunner& Runner() { return *CpuBlockRunner::Current(); }

// The runner, for an operation that waits. A kernel whose source hid it from the compiler's scan
// has no fibers to wait in; CpuModule::waits() makes that impossible for modules of our compiler.
CpuBlockRunner& WaitingRunner(int line) {
  CpuBlockRunner& runner = Runner();
  if (!runner.in_fiber()) {
    runner.launch().findings->Add(
        {.kind = "internal", .message = "a wait was reached outside of a fiber", .line = line}, "");
    runner.Abandon();
  }
  return runner;
}

}  // namespace

// Defined here so that the linker takes this file, whose other functions only modules refer to.
void LinkCpuRuntime() {}

}  // namespace fettle

using fettle::CpuBlockRunner;
using fettle::CpuChecker;
using fettle::Runner;
using fettle::RuntimeGuard;
using fettle::WaitingRunner;

extern "C" {

fettle_uint3 fettle_rt_thread_index() { return Runner().IndexOf(Runner().thread()); }
fettle_uint3 fettle_rt_block_index() { return Runner().block_index(); }
fettle_uint3 fettle_rt_block_size() {
  const unsigned* size = Runner().launch().block;
  return {size[0], size[1], size[2]};
}
fettle_uint3 fettle_rt_grid_size() {
  const unsigned* size = Runner().launch().grid;
  return {size[0], size[1], size[2]};
}
unsigned fettle_rt_lane() {
  return static_cast<unsigned>(Runner().thread() & (Runner().lanes() - 1));
}
void* fettle_rt_dynamic_shared() { return Runner().dynamic_shared(); }
void fettle_rt_begin_thread(unsigned index[4]) {
  const CpuBlockRunner& runner = Runner();
  const fettle_uint3 here = runner.IndexOf(runner.thread());
  index[0] = here.x;
  index[1] = here.y;
  index[2] = here.z;
  index[3] = static_cast<unsigned>(runner.thread());
}

void fettle_rt_barrier(int line, const char* what) { WaitingRunner(line).Barrier(line, what); }
int fettle_rt_barrier_vote(int predicate, int vote, int line) {
  return WaitingRunner(line).BarrierVote(predicate, vote, line);
}
uint64_t fettle_rt_shuffle(uint64_t value, int source_lane, uint64_t mask, int line) {
  return WaitingRunner(line).WarpOperation(CpuBlockRunner::WarpOp::kShuffle, value, source_lane, 0,
                                           mask, line, nullptr);
}
uint64_t fettle_rt_ballot(int predicate, uint64_t mask, int line, uint64_t* active) {
  return WaitingRunner(line).WarpOperation(CpuBlockRunner::WarpOp::kBallot, predicate != 0 ? 1 : 0,
                                           0, 0, mask, line, active);
}
uint64_t fettle_rt_match(uint64_t value, uint64_t mask, int line) {
  return WaitingRunner(line).WarpOperation(CpuBlockRunner::WarpOp::kMatch, value, 0, 0, mask, line,
                                           nullptr);
}
uint64_t fettle_rt_reduce(uint64_t value, int reduction, uint64_t mask, int line) {
  return WaitingRunner(line).WarpOperation(CpuBlockRunner::WarpOp::kReduce, value, 0, reduction,
                                           mask, line, nullptr);
}
void fettle_rt_warp_sync(uint64_t mask, int line) {
  WaitingRunner(line).WarpOperation(CpuBlockRunner::WarpOp::kSync, 0, 0, 0, mask, line, nullptr);
}
void fettle_rt_grid_sync(int line) {
  fettle_rt_trap(line, "grid-wide sync is not supported on the cpu target");
}
void fettle_rt_fence(int scope) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (scope > 0 && Runner().launch().checker != nullptr) Runner().launch().checker->NoteFence();
}
void fettle_rt_trap(int line, const char* message) {
  CpuBlockRunner& runner = Runner();
  const RuntimeGuard guard;
  runner.launch().findings->Add(
      {.kind = "trap", .message = fmt::format("{}, {}", message, runner.Where()), .line = line},
      fmt::format("{}", line));
  runner.Abandon();
}
void fettle_rt_note(int line, const char* message) {
  CpuBlockRunner& runner = Runner();
  if (runner.launch().checker == nullptr) return;
  const RuntimeGuard guard;
  runner.launch().findings->Add({.kind = "portability",
                                 .is_error = false,
                                 .message = fmt::format("{}, {}", message, runner.Where()),
                                 .line = line},
                                fmt::format("{}{}", line, message));
}
void fettle_rt_atomic(const volatile void* address, int size_bytes, void* pc) {
  CpuChecker* checker = CpuChecker::Current();
  if (checker == nullptr) return;
  checker->Access(reinterpret_cast<std::uintptr_t>(address), static_cast<std::size_t>(size_bytes),
                  /*write=*/true, /*atomic=*/true, pc);
}
unsigned long long fettle_rt_clock() { return __builtin_ia32_rdtsc(); }

}  // extern "C"
