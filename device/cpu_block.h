// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csetjmp>
#include <cstdint>
#include <string>

#include "device/cpu_abi.h"
#include "device/cpu_fiber.h"
#include "device/cpu_findings.h"
#include "device/cpu_schedule.h"

namespace fettle {

class CpuChecker;

inline constexpr int kMaxBlockThreads = 1024;

// What all workers of one launch share.
struct CpuLaunch {
  const fettle_cpu_entry* entry = nullptr;
  const fettle_cpu_module* module = nullptr;
  void** arguments = nullptr;
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  int lanes = 32;
  std::int64_t dynamic_shared_bytes = 0;
  CpuSchedule schedule = CpuSchedule::kForward;
  std::uint64_t seed = 0;
  bool fibers = true;  // Else entry->loop.
  CpuFindings* findings = nullptr;
  CpuChecker* checker = nullptr;  // Check mode.
};

// Runs the blocks of a launch on one OS thread: each GPU thread is a fiber, switched at barriers
// and warp operations. A warp's lanes run until all of them wait or have ended; then the lanes
// waiting at the lowest source line form the group that executes the operation (maximal
// convergence).
//
// Not thread-safe: one per worker thread.
class CpuBlockRunner {
 public:
  CpuBlockRunner() = default;
  CpuBlockRunner(const CpuBlockRunner&) = delete;
  CpuBlockRunner& operator=(const CpuBlockRunner&) = delete;

  // The runner whose block the calling thread is in; null outside of a launch.
  static CpuBlockRunner* Current();

  // Prepares for the launch. False: no memory for the stacks.
  bool Begin(const CpuLaunch& launch, void* dynamic_shared);
  // The calling thread runs no more blocks of the launch.
  void End();
  // Runs one block to its end. False: the launch was abandoned (a finding says why).
  bool RunBlock(std::uint64_t block_number);
  // Leaves the kernel from inside it, whatever it was doing; RunBlock returns false.
  [[noreturn]] void Abandon();
  // The same from a signal handler.
  [[noreturn]] void AbandonFromSignal();

  bool in_kernel() const { return in_kernel_; }
  bool in_fiber() const { return in_fiber_; }
  const CpuLaunch& launch() const { return *launch_; }
  const FiberStacks& stacks() const { return stacks_; }
  int thread() const { return current_; }  // Linear index of the running GPU thread.
  int thread_count() const { return threads_; }
  int lanes() const { return static_cast<int>(lanes_); }
  std::uint64_t switches() const { return switches_; }
  fettle_uint3 block_index() const { return block_index_; }
  fettle_uint3 IndexOf(int thread) const { return index_[static_cast<std::size_t>(thread)]; }
  void* dynamic_shared() const { return dynamic_shared_; }
  // "block (0,0,0) thread (1,0,0)" of the running thread.
  std::string Where() const;
  static std::string Text(fettle_uint3 v);

  // Bumped at every barrier and block, and at every sync of a thread's warp: accesses in different
  // phases are ordered.
  std::uint32_t phase() const { return phase_; }
  std::uint16_t warp_phase(int thread) const {
    return warp_phase_[static_cast<std::size_t>(thread) / 32];
  }
  std::uint32_t block_serial() const { return block_serial_; }

  // Kernel-facing (cpu_runtime.cc).
  void Barrier(int line, const char* what);
  int BarrierVote(int predicate, int vote, int line);
  enum class WarpOp : std::uint8_t { kShuffle, kBallot, kMatch, kReduce, kSync };
  std::uint64_t WarpOperation(WarpOp op, std::uint64_t value, int source, int reduction,
                              std::uint64_t mask, int line, std::uint64_t* active);
  // Lets another thread of the block run; for spinning threads in check mode.
  void Yield();
  // Ends the running thread: the last thing a fiber does.
  void FinishThread();

 private:
  using Words = std::array<std::uint64_t, kMaxBlockThreads / 64>;  // One bit per thread.

  static bool Bit(const Words& words, int i) {
    return ((words[static_cast<std::size_t>(i) >> 6] >> (i & 63)) & 1) != 0;
  }
  static void Set(Words& words, int i) {
    words[static_cast<std::size_t>(i) >> 6] |= std::uint64_t{1} << (i & 63);
  }
  static void Clear(Words& words, int i) {
    words[static_cast<std::size_t>(i) >> 6] &= ~(std::uint64_t{1} << (i & 63));
  }
  // The bits of thread i's warp, lane 0 first.
  std::uint64_t WarpBits(const Words& words, int i) const {
    const std::uint64_t word = words[static_cast<std::size_t>(i) >> 6];
    return lanes_ == 64 ? word : (word >> (i & 32)) & 0xffffffffu;
  }
  std::uint64_t WarpShift(int i, std::uint64_t bits) const {
    return lanes_ == 64 ? bits : bits << (i & 32);
  }
  int WarpStart(int i) const { return i & ~(static_cast<int>(lanes_) - 1); }

  void SwitchTo(int next);
  void RunNext();  // The current thread waits or has ended: run another.
  void RunNextSlow();
  int PickReady() const;  // Forward: the next ready thread after the current one; -1: none.
  int PickReadyNth(int n) const;
  int CountReady() const;
  void ResolveWarp(int thread);
  std::uint64_t ConvergedGroup(int thread, int* leader) const;
  void CheckMask(int leader, std::uint64_t group);
  void Execute(int leader, std::uint64_t group);
  void ExecuteShuffle(int start, std::uint64_t group);
  void ReleaseBarrier();
  void CheckBarrier();
  std::string WhereAllWait() const;
  void FinishBlock();

  const CpuLaunch* launch_ = nullptr;
  FiberStacks stacks_;
  void* main_stack_ = nullptr;
  void* dynamic_shared_ = nullptr;
  int threads_ = 0, current_ = 0, alive_ = 0, at_barrier_ = 0;
  unsigned lanes_ = 32;
  bool in_fiber_ = false, abandoned_ = false;
  volatile bool in_kernel_ = false;
  sigjmp_buf escape_;
  std::uint64_t random_ = 1, switches_ = 0;
  std::uint32_t phase_ = 1, block_serial_ = 0;
  fettle_uint3 block_index_{};
  int vote_ = -1, vote_result_ = 0;

  Words ready_{}, barrier_wait_{}, warp_wait_{}, done_{};
  std::array<std::uint16_t, kMaxBlockThreads / 32> warp_phase_{};
  template <class T>
  using PerThread = std::array<T, kMaxBlockThreads>;
  PerThread<fettle_uint3> index_{};
  // What each waiting thread waits for.
  PerThread<WarpOp> op_{};
  PerThread<std::uint8_t> reduction_{};
  PerThread<std::uint64_t> value_{}, mask_{}, result_{}, active_{};
  PerThread<int> source_{}, line_{}, predicate_{};
  PerThread<int> passed_line_{};  // Of the last barrier it passed in this block; 0: none.
  PerThread<const char*> what_{};
};

}  // namespace fettle
