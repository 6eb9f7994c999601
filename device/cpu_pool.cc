// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_pool.h"

#include <numeric>

#include "device/cpu_faults.h"

namespace fettle {
namespace {

__extension__ typedef unsigned __int128 Wide;

constexpr int kSpins = 2000;  // About 20 us of looking before a thread sleeps.

// Waits until `value` differs from `old`; looks for a while before it sleeps.
void WaitForChange(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    __builtin_ia32_pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

CpuPool::CpuPool(int threads) {
  for (int i = 0; i < threads; ++i) workers_.push_back(std::make_unique<Worker>());
  for (std::size_t i = 1; i < workers_.size(); ++i) {
    threads_.emplace_back([this, i](const std::stop_token& stop) { Serve(i, stop); });
  }
}

CpuPool::~CpuPool() {
  for (std::jthread& thread : threads_) thread.request_stop();
  generation_.fetch_add(1);
  generation_.notify_all();
}

bool CpuPool::Worker::Reserve(std::int64_t size_bytes) {
  if (dynamic_shared != nullptr && dynamic_shared->size_bytes() == size_bytes) return true;
  dynamic_shared.reset();
  auto buffer = CpuBuffer::Create(size_bytes, /*page_end=*/true, /*alignment=*/16);
  if (!buffer.ok()) return false;
  dynamic_shared = *std::move(buffer);
  dynamic_shared->SetName("dynamic shared memory");
  return true;
}

CpuBuffer* CpuPool::DynamicShared(std::int64_t size_bytes) {
  return workers_[0]->Reserve(size_bytes) ? workers_[0]->dynamic_shared.get() : nullptr;
}

void CpuPool::RunBlocks(Worker& worker) {
  const CpuLaunch& launch = *launch_;
  if (!worker.Reserve(launch.dynamic_shared_bytes) ||
      !worker.runner.Begin(launch, worker.dynamic_shared->bytes())) {
    exhausted_ = true;
    worker.runner.End();
    return;
  }
  while (!failed_.load(std::memory_order_relaxed)) {
    const std::uint64_t begin = next_block_.fetch_add(chunk_, std::memory_order_relaxed);
    if (begin >= blocks_) break;
    const std::uint64_t end = std::min(blocks_, begin + chunk_);
    for (std::uint64_t i = begin; i < end && !failed_.load(std::memory_order_relaxed); ++i) {
      const std::uint64_t block =
          static_cast<std::uint64_t>((static_cast<Wide>(i) * step_ + offset_) % blocks_);
      if (!worker.runner.RunBlock(block)) failed_ = true;
    }
  }
  worker.runner.End();
}

void CpuPool::Serve(std::size_t index, const std::stop_token& stop) {
  const FaultStack stack;
  RegisterKernelThread();
  std::uint32_t seen = 0;
  for (;;) {
    WaitForChange(generation_, seen);
    seen = generation_.load(std::memory_order_acquire);
    if (stop.stop_requested()) break;
    if (index < wanted_) RunBlocks(*workers_[index]);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
  UnregisterKernelThread();
}

absl::Status CpuPool::Run(const CpuLaunch& launch, int threads) {
  launch_ = &launch;
  blocks_ = std::uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  wanted_ =
      std::min<std::uint64_t>({static_cast<std::uint64_t>(threads), workers_.size(), blocks_});
  chunk_ = std::max<std::uint64_t>(1, blocks_ / (wanted_ * 16));
  step_ = 1;
  offset_ = 0;
  if (launch.schedule == CpuSchedule::kReverse) {
    step_ = blocks_ - 1;  // i -> blocks - 1 - i.
    offset_ = blocks_ - 1;
  } else if (launch.schedule == CpuSchedule::kRandom) {
    // A step without a common divisor visits every block once.
    const std::uint64_t mixed = (launch.seed + 1) * 0x9e3779b97f4a7c15u;
    step_ = mixed % blocks_ + 1;
    while (std::gcd(step_, blocks_) != 1) ++step_;
    offset_ = (mixed >> 20) % blocks_;
  }
  next_block_ = 0;
  failed_ = exhausted_ = false;
  if (wanted_ > 1) {
    // All wake and answer, also those without work, so that none looks at the next launch's state.
    busy_ = static_cast<std::uint32_t>(workers_.size() - 1);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
  }
  RunBlocks(*workers_[0]);
  for (std::uint32_t left; (left = busy_.load(std::memory_order_acquire)) != 0;) {
    WaitForChange(busy_, left);
  }
  if (exhausted_) {
    return absl::ResourceExhaustedError(fmt::format(
        "launch: no memory for the stacks of {} threads or {} bytes of shared memory",
        launch.block[0] * launch.block[1] * launch.block[2], launch.dynamic_shared_bytes));
  }
  return failed_ ? absl::AbortedError("the kernel was abandoned") : absl::OkStatus();
}

}  // namespace fettle
