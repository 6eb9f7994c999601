// SPDX-License-Identifier: Apache-2.0
#include "profiler/timing.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/profiler/simulated_device.h"

namespace fettle {
namespace {

using std::chrono::nanoseconds;

class SimulatedPair final : public TimedPair {
 public:
  SimulatedPair(SimulatedTime& time, SimulatedDevice& device, double a_ns, double b_ns)
      : time_(time), device_(device), a_ns_(a_ns), b_ns_(b_ns) {
    device.run = [this](Side side, int) { Run(side); };
  }
  int slots() const override { return 8; }
  bool resets_between_calls() const override { return resets; }
  int Wanted(int, bool last) const override {
    return (last ? wants_last : wants) && !seen_wanted ? kWanted : -1;
  }
  bool Counts(int first, int) const override { return (!wants && !wants_last) || first != kWanted; }
  absl::Status Enqueue(Side side, int slot) override {
    if (device_.capturing != nullptr) {
      device_.capturing->calls.emplace_back(side, slot);
    } else {
      Run(side);
    }
    return absl::OkStatus();
  }
  absl::Status AfterSample(Side side, int first, int count, bool warmup) override {
    EXPECT_GE(first, 0);
    EXPECT_LT(first, slots());
    most_launches = std::max(most_launches, count);
    if (!warmup) order.push_back(side);
    if (!warmup && !Counts(first, count)) {
      EXPECT_EQ(side, Side::kB);
      seen_wanted = true;
    }
    time_.ns += 1000;
    return fail_after > 0 && --fail_after == 0 ? absl::AbortedError("fault") : absl::OkStatus();
  }

  static constexpr int kWanted = 5;  // Is not counted, and holds what is to be seen.
  bool wants = false, wants_last = false, seen_wanted = false;
  double noise = 0, drift = 0;
  bool resets = false;
  int most_launches = 0, fail_after = 0;
  std::vector<Side> order;

 private:
  void Run(Side side) {
    // Drift moves both sides alike; interleaving must cancel it.
    const double slow = 1 + drift * static_cast<double>(time_.ns - 1'000'000'000) * 1e-9;
    const double jitter = 1 + noise * std::abs(normal_(random_));
    time_.ns += static_cast<std::int64_t>((side == Side::kA ? a_ns_ : b_ns_) * slow * jitter);
  }
  SimulatedTime& time_;
  SimulatedDevice& device_;
  double a_ns_, b_ns_;
  std::mt19937_64 random_{7};
  std::normal_distribution<double> normal_;
};

double MeanLogRatio(const std::vector<TimingBlock>& blocks) {
  double sum = 0;
  int count = 0;
  for (const TimingBlock& block : blocks) {
    for (std::size_t i = 0; i < block.a_ns.size(); ++i) {
      sum += std::log(block.a_ns[i] / block.b_ns[i]);
      ++count;
    }
  }
  return sum / count;
}

class Timing : public ::testing::Test {
 protected:
  absl::StatusOr<TimingResult> Measure(SimulatedPair& pair) {
    return MeasureInterleaved(device, pair, options, time,
                              [this](nanoseconds span) { time.ns += span.count(); });
  }
  SimulatedTime time;
  SimulatedDevice device{time};
  TimingOptions options;
};

TEST_F(Timing, TakesTheBlocksAndPairsAskedFor) {
  options.max_blocks = 20;
  SimulatedPair pair(time, device, 500'000, 500'000);
  const auto result = Measure(pair);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->blocks.size(), 20u);
  for (const TimingBlock& block : result->blocks) {
    EXPECT_EQ(block.a_ns.size(), 10u);
    EXPECT_EQ(block.b_ns.size(), 10u);
    EXPECT_FALSE(block.discarded) << block.discard_reason;
  }
  EXPECT_EQ(result->launches_per_sample, 1);
}

TEST_F(Timing, CancelsDriftThatMovesBothSides) {
  options.max_blocks = 20;
  SimulatedPair pair(time, device, 1'000'000, 1'000'000);
  pair.drift = 0.5;  // Half again as slow after a second: 20 % over the run.
  pair.noise = 0.01;
  const auto result = Measure(pair);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(MeanLogRatio(result->blocks), 0, 0.003);
}

TEST_F(Timing, FindsATrueDifference) {
  options.max_blocks = 20;
  SimulatedPair pair(time, device, 1'050'000, 1'000'000);
  pair.noise = 0.02;
  const auto result = Measure(pair);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(MeanLogRatio(result->blocks), std::log(1.05), 0.004);
}

TEST_F(Timing, RandomisesTheOrderBySeedAndBalancesIt) {
  options.max_blocks = 4;
  options.order_seed = 1;
  SimulatedPair first(time, device, 500'000, 500'000), second(time, device, 500'000, 500'000),
      third(time, device, 500'000, 500'000);
  ASSERT_TRUE(Measure(first).ok());
  ASSERT_TRUE(Measure(second).ok());
  EXPECT_EQ(first.order, second.order);
  options.order_seed = 2;
  ASSERT_TRUE(Measure(third).ok());
  EXPECT_NE(first.order, third.order);
  int a_first = 0;
  for (std::size_t i = 0; i < third.order.size(); i += 2) a_first += third.order[i] == Side::kA;
  EXPECT_GE(a_first, 16);
  EXPECT_LE(a_first, 24);
}

TEST_F(Timing, RepeatsShortKernelsInOneSample) {
  options.max_blocks = 2;
  SimulatedPair pair(time, device, 10'000, 8'000);
  const auto result = Measure(pair);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->launches_per_sample, 25);  // 200 us over 8 us.
  EXPECT_FALSE(result->graphs);
  EXPECT_NEAR(result->blocks[0].b_ns[0], 8'000, 1);
}

TEST_F(Timing, ReplaysAGraphForBothSidesWhereThereIsOne) {
  options.max_blocks = 2;
  device.has_graphs = true;
  SimulatedPair pair(time, device, 10'000, 8'000);
  const auto result = Measure(pair);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->graphs);
  EXPECT_GT(device.replays, 40);
  EXPECT_NEAR(result->blocks[0].a_ns[0], 10'000, 1);
  EXPECT_NEAR(result->blocks[0].b_ns[0], 8'000, 1);
}

TEST_F(Timing, UsesASlotOncePerSampleWhereItMustBeReset) {
  options.max_blocks = 2;
  SimulatedPair pair(time, device, 1'000, 1'000);
  pair.resets = true;
  const auto result = Measure(pair);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->launches_per_sample, 8);
  EXPECT_LE(pair.most_launches, 8);
}

TEST_F(Timing, DiscardsThrottledBlocksAndTakesOthers) {
  options.max_blocks = 4;
  DeviceState hot;
  hot.throttled = true;
  hot.throttle_reason = "thermal";
  device.states = {hot, DeviceState{}};
  SimulatedPair pair(time, device, 500'000, 500'000);
  const auto result = Measure(pair);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->blocks.size(), 5u);
  EXPECT_TRUE(result->blocks[0].discarded);
  EXPECT_EQ(result->blocks[0].discard_reason, "throttled: thermal");
  EXPECT_EQ(result->discarded_blocks, 1);
  EXPECT_FALSE(result->blocks[1].discarded);
}

TEST_F(Timing, DiscardsBlocksAtALowClock) {
  options.max_blocks = 3;
  DeviceState fast, slow;
  fast.clock_mhz = 1980;
  slow.clock_mhz = 1200;
  device.states = {fast, fast, slow, slow, fast};
  SimulatedPair pair(time, device, 500'000, 500'000);
  const auto result = Measure(pair);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->blocks.size(), 4u);
  EXPECT_FALSE(result->blocks[0].discarded);
  EXPECT_TRUE(result->blocks[1].discarded);
  EXPECT_THAT(result->blocks[1].discard_reason, ::testing::HasSubstr("1200 MHz"));
}

TEST_F(Timing, DiscardsBlocksWhoseClocksDisagree) {
  options.max_blocks = 2;
  device.event_scale = 2;  // The device claims twice what the host waited.
  SimulatedPair pair(time, device, 500'000, 500'000);
  const auto result = Measure(pair);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->discarded_blocks, static_cast<std::int64_t>(result->blocks.size()));
  EXPECT_EQ(result->blocks[0].discard_reason, "device and host clocks disagree");
}

TEST_F(Timing, KeepsBlocksOfSlowKernelsShort) {
  options.block_span = std::chrono::milliseconds(60);
  options.pairs_per_block = 10;
  options.enough = [](const std::vector<TimingBlock>& blocks) { return blocks.size() == 2; };
  SimulatedPair slow(time, device, 5'000'000, 5'000'000);  // 10 ms a pair: five, and one warms up.
  const auto result = Measure(slow);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LE(result->blocks[0].a_ns.size(), 5u);
  EXPECT_GE(result->blocks[0].a_ns.size(), 3u);
  EXPECT_EQ(result->blocks[1].a_ns.size(), result->blocks[0].a_ns.size());
}

TEST_F(Timing, CutsPairsThenBlocksToTheTimeCap) {
  options.block_span = std::chrono::seconds(10);
  options.max_blocks = 40;
  options.min_blocks = 20;
  options.time_cap = std::chrono::seconds(20);
  SimulatedPair pair(time, device, 100'000'000, 100'000'000);  // 0.1 s each: 44 s uncut.
  const std::int64_t start = time.ns;
  const auto result = Measure(pair);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->capped);
  EXPECT_GE(result->blocks.size(), 20u);
  EXPECT_LT(time.ns - start, 21'000'000'000);
  EXPECT_EQ(result->blocks[0].a_ns.size(), 3u);
}

TEST_F(Timing, StopsWhenThereIsEnough) {
  options.enough = [](const std::vector<TimingBlock>& blocks) { return blocks.size() == 7; };
  SimulatedPair pair(time, device, 500'000, 500'000);
  const auto result = Measure(pair);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->blocks.size(), 7u);
  EXPECT_FALSE(result->capped);
}

TEST_F(Timing, ReportsAMiscalibratedSpin) {
  device.spin_scale = 1.25;
  const auto error = CalibrationError(device, std::chrono::seconds(1));
  ASSERT_TRUE(error.ok());
  EXPECT_NEAR(*error, 0.25, 1e-9);
}

TEST_F(Timing, RunsWhatIsWantedBesideWhatCounts) {
  options.max_blocks = 1;
  options.min_blocks = 1;
  options.pairs_per_block = 2;
  SimulatedPair soon(time, device, 500'000, 500'000), last(time, device, 500'000, 500'000);
  soon.wants = true;
  ASSERT_TRUE(Measure(soon).ok());
  EXPECT_TRUE(soon.seen_wanted);
  last.wants_last = true;
  const auto result = Measure(last);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(last.seen_wanted);
  EXPECT_EQ(result->blocks[0].b_ns.size(), 2u);
}

TEST_F(Timing, EndsAtTheFirstDeviceError) {
  SimulatedPair pair(time, device, 500'000, 500'000);
  pair.fail_after = 30;
  EXPECT_EQ(Measure(pair).status().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace fettle
