// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "device/cpu_block.h"
#include "device/cpu_memory.h"

namespace fettle {

// Persistent threads that run the blocks of launches; the calling thread is the first worker.
// One launch at a time.
class CpuPool {
 public:
  // `threads` >= 1, with the caller's.
  explicit CpuPool(int threads);
  ~CpuPool();
  CpuPool(const CpuPool&) = delete;
  CpuPool& operator=(const CpuPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()); }
  // Runs all blocks of `launch` on up to `threads` workers. kAborted: the launch was abandoned (the
  // reason is in launch.findings); kResourceExhausted: no memory for stacks or shared memory.
  absl::Status Run(const CpuLaunch& launch, int threads);
  CpuBlockRunner& runner(int worker) { return workers_[static_cast<std::size_t>(worker)]->runner; }
  // Worker 0's dynamic shared memory of the size, for a checker. Null when there is no memory.
  CpuBuffer* DynamicShared(std::int64_t size_bytes);

 private:
  struct Worker {
    CpuBlockRunner runner;
    std::unique_ptr<CpuBuffer> dynamic_shared;
    bool Reserve(std::int64_t size_bytes);
  };

  void Serve(std::size_t index, const std::stop_token& stop);
  void RunBlocks(Worker& worker);

  std::vector<std::unique_ptr<Worker>> workers_;
  // The launch in progress; written before generation_ announces it.
  const CpuLaunch* launch_ = nullptr;
  std::uint64_t blocks_ = 0, chunk_ = 1, step_ = 1, offset_ = 0;
  std::size_t wanted_ = 1;
  std::atomic<std::uint64_t> next_block_{0};
  std::atomic<bool> failed_{false}, exhausted_{false};
  std::atomic<std::uint32_t> generation_{0}, busy_{0};
  std::vector<std::jthread> threads_;
};

}  // namespace fettle
