// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>

namespace fettle {

// Wall and monotonic time, injected. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since the Unix epoch; never decreases within a process.
  virtual std::int64_t NowNs() = 0;
  // Monotonic; for durations and deadlines.
  virtual std::chrono::steady_clock::time_point Steady() = 0;
};

Clock& SystemClock();

}  // namespace fettle
