// SPDX-License-Identifier: Apache-2.0
#include "judge/simulate.h"

#include <cmath>

#include "bench/gzip.h"

namespace fettle::judge {
namespace {

using ::testing::HasSubstr;

class RecordedNoise : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto text =
        ReadMaybeGzip(fmt::format("{}/tests/data/noise/{}", FETTLE_SOURCE_DIR, GetParam()));
    ASSERT_TRUE(text.ok()) << text.status();
    auto series = ParseNoise(*text);
    ASSERT_TRUE(series.ok()) << series.status();
    series_ = *std::move(series);
  }

  Tally Run(const RecordedSeries& series, double gain, int trials, std::uint64_t seed) {
    const auto make = [&](std::uint64_t one) { return Replay(series, std::log1p(gain), one); };
    return Confirm(make, trials, /*cases=*/1, /*k=*/1, Protocol{}, AcceptanceRule{}, seed);
  }

  std::vector<RecordedSeries> series_;
};

TEST_P(RecordedNoise, NeverWinsBetweenEqualKernels) {
  ASSERT_GE(series_.size(), 5U);
  for (const RecordedSeries& series : series_) {
    EXPECT_EQ(Run(series, 0, 150, 11).wins, 0) << series.name;
  }
}

TEST_P(RecordedNoise, NeverWinsAboveItsLevelAtTheThresholdItself) {
  int wins = 0, trials = 0;
  for (const RecordedSeries& series : series_) {
    wins += Run(series, 0.01, 150, 12).wins;
    trials += 150;
  }
  EXPECT_LE(wins, 0.02 * trials);  // 0.5 % are due.
}

// Whole jobs, in which the luckiest of fifty is what gets confirmed.
TEST_P(RecordedNoise, AcceptsNothingInJobsOfEqualKernels) {
  for (const RecordedSeries& series : series_) {
    const auto make = [&](std::uint64_t seed) { return Replay(series, 0, seed); };
    const JobTally tally = PlayJobs(make, 2, JobProtocol{}, AcceptanceRule{}, 21);
    EXPECT_EQ(tally.candidates, 100);
    EXPECT_EQ(tally.jobs_with_a_win, 0) << series.name;
  }
}

TEST_P(RecordedNoise, FindsALargeGainWhateverTheNoise) {
  for (const RecordedSeries& series : series_) {
    EXPECT_GE(Run(series, 3, 40, 13).wins, 38) << series.name;  // Four times as fast.
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, RecordedNoise,
                         ::testing::Values("h200_aa.csv.gz", "cpu_aa.csv.gz"),
                         [](const auto& param) { return std::string(param.param, 3); });

using H200Noise = RecordedNoise;

TEST_P(H200Noise, FindsFivePercentInNinetyNineOfAHundred) {
  for (const RecordedSeries& series : series_) {
    EXPECT_GE(Run(series, 0.05, 100, 14).wins, 99) << series.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Idle, H200Noise, ::testing::Values("h200_aa.csv.gz"));

// Wins of the k-th confirmation among `trials` on this noise.
int Wins(const NoiseModel& model, double gain, int trials, int k = 1) {
  const auto make = [&](std::uint64_t seed) { return MakeNoise(model, std::log1p(gain), seed); };
  return Confirm(make, trials, 1, k, Protocol{}, AcceptanceRule{}, 5).wins;
}

TEST(SimulatedNoise, KeepsTheErrorRateAtTheThreshold) {
  const NoiseModel models[] = {
      {}, {.white = 0.02, .tail_df = 3}, {.drift = 0.05, .drift_launches = 50}};
  for (const NoiseModel& model : models) {
    EXPECT_EQ(Wins(model, 0, 400), 0);
    EXPECT_LE(Wins(model, 0.01, 800), 12);  // 4 are due; 12 or more come by chance 1 time in 1000.
    EXPECT_GE(Wins(model, 0.05, 100), 99);
  }
}

TEST(SimulatedNoise, SpendsLessOnLaterConfirmations) {
  EXPECT_LE(Wins({}, 0.01, 800, 10), 2);  // 0.07 are due.
}

TEST(PlayJobs, CountsEachStage) {
  const auto make = [](std::uint64_t seed) { return MakeNoise({}, std::log1p(0.05), seed); };
  const JobTally better = PlayJobs(make, 3, {.candidates = 4}, AcceptanceRule{}, 7);
  EXPECT_EQ(better.jobs, 3);
  EXPECT_EQ(better.candidates, 12);
  EXPECT_EQ(better.jobs_with_a_win, 3);
  EXPECT_GE(better.confirmations, better.wins);
  EXPECT_LT(better.wins, 12);  // After a win, its like is no step ahead.
  const auto slow = [](std::uint64_t seed) { return MakeNoise({}, std::log(0.8), seed); };
  EXPECT_EQ(PlayJobs(slow, 1, {.candidates = 9}, AcceptanceRule{}, 7).screened, 9);
}

TEST(TakeBlocks, StopsWhenTheNoiseAllowsAndNeverBeyondTheMost) {
  EXPECT_EQ(TakeBlocks(MakeNoise({.white = 0.001, .drift = 0}, 0, 1), Protocol{}).blocks.size(),
            20U);
  EXPECT_EQ(TakeBlocks(MakeNoise({.white = 0.2}, 0, 1), Protocol{}).blocks.size(), 40U);
}

TEST(AaSpread, IsAboutTheErrorOfTheMeasurement) {
  double spread = 0, error = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const CaseMeasurement one = TakeBlocks(MakeNoise({.white = 0.03}, 0.1, seed), Protocol{});
    spread += AaSpread(one.blocks);
    error += SummarizeBlocks(one.block_log_ratios).standard_error;
  }
  EXPECT_NEAR(spread / error, 1, 0.25);
  EXPECT_EQ(AaSpread({}), 0);
}

TEST(ParseNoise, NamesTheLineThatItCannotRead) {
  const auto bad = ParseNoise("series,pair,pos,copy,us\nx,0,0,A,1.5\nx,0,1,C,1.5\n");
  EXPECT_THAT(std::string(bad.status().message()), HasSubstr("line 3"));
  const auto twice = ParseNoise("x,0,0,A,1.5\nx,0,1,A,1.5\n");
  EXPECT_THAT(std::string(twice.status().message()), HasSubstr("line 2"));
  EXPECT_FALSE(ParseNoise("").ok());
  EXPECT_FALSE(ParseNoise("x,0,0,A,-1\n").ok());
}

TEST(ParseNoise, PutsTheCopiesOnTheirSides) {
  const auto series = ParseNoise("x,0,0,B,2\nx,0,1,A,1\ny,0,0,A,3\ny,0,1,B,4\n");
  ASSERT_TRUE(series.ok()) << series.status();
  ASSERT_EQ(series->size(), 2U);
  EXPECT_EQ((*series)[0].pairs, (std::vector<TimedPair>{{1, 2}}));
  EXPECT_EQ((*series)[1].pairs, (std::vector<TimedPair>{{3, 4}}));
}

}  // namespace
}  // namespace fettle::judge
