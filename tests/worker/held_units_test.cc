// SPDX-License-Identifier: Apache-2.0
#include "worker/held_units.h"

#include <latch>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fettle {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

WorkUnit Unit(const std::string& id, int attempt = 1) {
  WorkUnit unit;
  unit.id = id;
  unit.attempt = attempt;
  return unit;
}

constexpr milliseconds kSoon{10'000};

TEST(HeldUnits, KeepsAResultUntilItIsAcknowledged) {
  HeldUnits held(
      [](const WorkUnit& unit, std::stop_token) { return UnitOutcome{.result_json = unit.id}; });
  held.Lease(Unit("u"));
  const auto ready = held.NextUnsent({}, kSoon);
  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->outcome.result_json, "u");
  EXPECT_FALSE(held.NextUnsent({}, milliseconds(1)));  // Sent once per connection.
  EXPECT_THAT(held.Keys(), ElementsAre("u:1"));
  held.MarkUnsent();  // A new connection.
  ASSERT_TRUE(held.NextUnsent({}, kSoon));
  held.Acknowledge({"u", 1});
  EXPECT_THAT(held.Keys(), IsEmpty());
  EXPECT_TRUE(held.WaitEmpty(milliseconds(0)));
  held.MarkUnsent();
  EXPECT_FALSE(held.NextUnsent({}, milliseconds(1)));
}

TEST(HeldUnits, DoesNotRunAHeldUnitAgain) {
  std::atomic<int> runs{0};
  std::latch go{1};
  HeldUnits held([&](const WorkUnit&, std::stop_token) {
    ++runs;
    go.wait();
    return UnitOutcome{.result_json = "{}"};
  });
  held.Lease(Unit("u"));
  held.Lease(Unit("u"));
  go.count_down();
  ASSERT_TRUE(held.NextUnsent({}, kSoon));
  held.Lease(Unit("u"));     // Finished, not acknowledged.
  held.Lease(Unit("u", 2));  // Another attempt is another unit.
  ASSERT_TRUE(held.NextUnsent({}, kSoon));
  EXPECT_EQ(runs, 2);
}

TEST(HeldUnits, ReturnsLeasesAtOnceThoughTheWorkGoesOn) {
  std::latch started{1}, finish{1};
  HeldUnits held([&](const WorkUnit&, std::stop_token stop) {
    started.count_down();
    finish.wait();
    EXPECT_TRUE(stop.stop_requested());
    return UnitOutcome{.result_json = "late"};
  });
  held.Lease(Unit("u"));
  started.wait();
  held.ReturnAll("the worker is stopping");
  const auto ready = held.NextUnsent({}, kSoon);
  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->outcome.result_json, "");
  EXPECT_EQ(ready->outcome.reason, "the worker is stopping");
  EXPECT_TRUE(ready->outcome.retryable);
  held.Acknowledge({"u", 1});
  EXPECT_TRUE(held.WaitEmpty(milliseconds(0)));
  finish.count_down();
}

TEST(HeldUnits, CancelStopsTheWork) {
  HeldUnits held([](const WorkUnit&, std::stop_token stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    wake.wait(lock, stop, [] { return false; });
    return UnitOutcome{.reason = "cancelled"};
  });
  held.Lease(Unit("u"));
  held.Cancel({"u", 1});
  held.Cancel({"unknown", 1});
  const auto ready = held.NextUnsent({}, kSoon);
  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->outcome.reason, "cancelled");
}

TEST(HeldUnits, SendsAgainWhatCouldNotBeSent) {
  HeldUnits held([](const WorkUnit&, std::stop_token) { return UnitOutcome{.result_json = "{}"}; });
  held.Lease(Unit("u"));
  ASSERT_TRUE(held.NextUnsent({}, kSoon));
  held.Unsend({"u", 1});
  EXPECT_TRUE(held.NextUnsent({}, kSoon));
}

}  // namespace
}  // namespace fettle
