// SPDX-License-Identifier: Apache-2.0
#include "profiler/duty.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/profiler/simulated_device.h"

namespace fettle {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using ::testing::DoubleNear;

// A device that gets hot: each launch takes 1 ms at 1,800 MHz, and the clock falls with the share
// of the last 100 ms in which it worked.
class HotDevice {
 public:
  HotDevice(SimulatedTime& time, bool tells_power) : device(time), time_(time) {
    if (!tells_power) return;
    device.tell_state = [this] {
      DeviceState state;
      state.clock_mhz = ClockMhz();
      state.power_w = 100 + 500 * Load();
      state.temperature_c = 40 + 30 * Load();
      state.throttled = Load() > 0.9;
      if (state.throttled) state.throttle_reason = "power cap";
      return state;
    };
  }
  void Work() {
    const double took = 1e6 * 1800 / ClockMhz();
    load_ns_ += took;
    time_.ns += static_cast<std::int64_t>(took);
  }
  void Rest(nanoseconds span) { time_.ns += span.count(); }

  SimulatedDevice device;

 private:
  double Load() {
    const std::int64_t span = time_.ns - since_;
    if (span > 100'000'000) {
      last_ = load_ns_ / static_cast<double>(span);
      since_ = time_.ns;
      load_ns_ = 0;
    }
    return last_;
  }
  double ClockMhz() { return 1800 - 400 * Load(); }

  SimulatedTime& time_;
  double load_ns_ = 0, last_ = 0;
  std::int64_t since_ = 1'000'000'000;
};

class OneKernel final : public TimedPair {
 public:
  OneKernel(HotDevice& device, bool resets) : device_(device), resets_(resets) {}
  int slots() const override { return 4; }
  bool resets_between_calls() const override { return resets_; }
  absl::Status Enqueue(Side side, int slot) override {
    EXPECT_EQ(side, Side::kB);
    EXPECT_LT(slot, slots());
    device_.Work();
    ++since_reset_;
    return absl::OkStatus();
  }
  absl::Status AfterSample(Side, int, int count, bool) override {
    EXPECT_EQ(count, since_reset_);
    EXPECT_LE(count, slots());
    since_reset_ = 0;
    return absl::OkStatus();
  }

 private:
  HotDevice& device_;
  const bool resets_;
  int since_reset_ = 0;
};

class DutyTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<DutyPoint>> Measure(DutyOptions options = {}, bool tells_power = true,
                                                 bool resets = false) {
    HotDevice device(time, tells_power);
    OneKernel pair(device, resets);
    return MeasureDuty(device.device, pair, options, time,
                       [&device](nanoseconds span) { device.Rest(span); });
  }
  SimulatedTime time;
};

TEST_F(DutyTest, LoadsTheDeviceByTheSharesAskedFor) {
  const auto points = Measure();
  ASSERT_TRUE(points.ok()) << points.status();
  ASSERT_EQ(points->size(), 6u);
  for (const DutyPoint& point : *points) {
    EXPECT_THAT(point.ran, DoubleNear(point.asked, 0.03)) << point.asked;
    EXPECT_EQ(point.launches > 0, point.asked > 0);
  }
}

TEST_F(DutyTest, ShowsPowerAndTheClocksAnswer) {
  const auto points = Measure();
  ASSERT_TRUE(points.ok()) << points.status();
  const DutyPoint &rest = points->front(), &tenth = points->at(1), &full = points->back();
  EXPECT_THAT(rest.power_w, DoubleNear(100, 20));
  EXPECT_GT(full.power_w, tenth.power_w + 300);
  EXPECT_GE(full.highest_power_w, full.power_w);
  EXPECT_LT(full.clock_mhz, tenth.clock_mhz - 200);
  EXPECT_LE(full.lowest_clock_mhz, full.clock_mhz);
  EXPECT_GT(full.median_ns, 1.15 * tenth.median_ns);
  EXPECT_GT(full.temperature_c, tenth.temperature_c);
  EXPECT_EQ(tenth.throttle_reason, "");
  EXPECT_EQ(full.throttle_reason, "power cap");
}

TEST_F(DutyTest, WhatADeviceDoesNotTellIsZero) {
  const auto points = Measure({}, /*tells_power=*/false);
  ASSERT_TRUE(points.ok()) << points.status();
  for (const DutyPoint& point : *points) {
    EXPECT_EQ(point.power_w, 0);
    EXPECT_EQ(point.clock_mhz, 0);
  }
  EXPECT_GT(points->back().median_ns, 0);
}

TEST_F(DutyTest, ABurstOfAKernelThatLeavesSomethingBehindFitsItsSlots) {
  const auto points = Measure({.ratios = {0.5}}, /*tells_power=*/true, /*resets=*/true);
  ASSERT_TRUE(points.ok()) << points.status();
  EXPECT_THAT(points->front().ran, DoubleNear(0.5, 0.03));
}

TEST_F(DutyTest, RefusesRatiosThatAreNone) {
  for (const double ratio : {-0.1, 1.5}) {
    const auto points = Measure({.ratios = {0.5, ratio}});
    EXPECT_EQ(points.status().code(), absl::StatusCode::kInvalidArgument) << ratio;
  }
}

TEST_F(DutyTest, ItsJsonComesBack) {
  const auto points = Measure({.ratios = {0, 1}, .span = milliseconds(300)});
  ASSERT_TRUE(points.ok()) << points.status();
  const nlohmann::json json = ToJson(*points);
  const auto back = DutyPointsFromJson(nlohmann::json::parse(json.dump()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(ToJson(*back), json);
  EXPECT_FALSE(DutyPointsFromJson(nlohmann::json::object()).ok());
}

}  // namespace
}  // namespace fettle
