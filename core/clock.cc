// SPDX-License-Identifier: Apache-2.0
#include "core/clock.h"

#include <algorithm>

namespace fettle {
namespace {

class RealClock final : public Clock {
 public:
  std::int64_t NowNs() override {
    const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    const std::lock_guard lock(mutex_);
    last_ = std::max(last_, static_cast<std::int64_t>(now));
    return last_;
  }
  std::chrono::steady_clock::time_point Steady() override {
    return std::chrono::steady_clock::now();
  }

 private:
  std::mutex mutex_;
  std::int64_t last_ = 0;  // Guarded by mutex_.
};

}  // namespace

Clock& SystemClock() {
  static RealClock* const clock = new RealClock;  // Never destroyed: threads may outlive main.
  return *clock;
}

}  // namespace fettle
