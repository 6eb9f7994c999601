// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/clock.h"

namespace fettle {

// Real time, with a wall clock that somebody sets and a monotonic one that can be moved on.
// Thread-safe.
class JumpingClock final : public Clock {
 public:
  std::int64_t NowNs() override { return SystemClock().NowNs() + wall_ns_; }
  std::chrono::steady_clock::time_point Steady() override {
    return SystemClock().Steady() + std::chrono::nanoseconds(steady_ns_);
  }
  // Unlike the real one this one goes back, too.
  void SetWall(std::chrono::nanoseconds by) { wall_ns_ = by.count(); }
  void MoveOn(std::chrono::nanoseconds by) { steady_ns_ += by.count(); }

 private:
  std::atomic<std::int64_t> wall_ns_ = 0, steady_ns_ = 0;
};

}  // namespace fettle
