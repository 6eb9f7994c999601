// SPDX-License-Identifier: Apache-2.0
#include "worker/watchdog.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

#include <gtest/gtest.h>

namespace fettle {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Runs `work` until the watchdog fires; returns how long after arming that was.
template <typename Work>
milliseconds FiresAfter(Watchdog::Bounds bounds, milliseconds limit, const Work& work) {
  std::atomic<bool> fired{false};
  steady_clock::time_point at;
  Watchdog watchdog(
      [&](const std::string& what) {
        EXPECT_NE(what.find("a test"), std::string::npos) << what;
        at = steady_clock::now();
        fired = true;
      },
      bounds);
  const auto start = steady_clock::now();
  watchdog.Arm(limit, "a test");
  while (!fired && steady_clock::now() < start + std::chrono::seconds(30)) work();
  EXPECT_TRUE(fired);
  return std::chrono::duration_cast<milliseconds>(at - start);
}

void Sleep() { std::this_thread::sleep_for(milliseconds(5)); }
void Work() {
  static std::atomic<int> counter{0};
  for (int i = 0; i < 100'000; ++i) ++counter;
}

TEST(Watchdog, BoundsWallTime) {
  EXPECT_GE(FiresAfter(Watchdog::Bounds::kWallTime, milliseconds(60), Sleep), milliseconds(60));
}

TEST(Watchdog, AProcessThatGetsNoProcessorHasFourTimesAsLong) {
  EXPECT_GE(FiresAfter(Watchdog::Bounds::kProcessorTime, milliseconds(100), Sleep),
            milliseconds(400));
}

TEST(Watchdog, AProcessThatWorksHasItsLimit) {
  const auto used = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  const double before = used();
  EXPECT_GE(FiresAfter(Watchdog::Bounds::kProcessorTime, milliseconds(100), Work),
            milliseconds(100));
  EXPECT_GE(used() - before, 0.03);
}

TEST(Watchdog, DisarmedInTimeStaysSilent) {
  std::atomic<bool> fired{false};
  {
    Watchdog watchdog([&](const std::string&) { fired = true; });
    watchdog.Arm(std::chrono::hours(1), "a test");
    watchdog.Disarm();
    std::this_thread::sleep_for(milliseconds(60));
  }
  EXPECT_FALSE(fired);
}

}  // namespace
}  // namespace fettle
