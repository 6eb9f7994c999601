// SPDX-License-Identifier: Apache-2.0
#include "judge/statistics.h"

#include <cmath>
#include <limits>
#include <random>

namespace fettle::judge {
namespace {

using ::testing::ElementsAre;

struct TableEntry {
  double tail, df, t;
};

// Published tables of Student's t (one-sided tails), and closed forms for df 1 and 2.
TEST(StudentT, MatchesPublishedTables) {
  const double pi = std::acos(-1.0);
  const TableEntry entries[] = {
      {0.05, 1, 6.31375151},
      {0.025, 5, 2.57058184},
      {0.01, 10, 2.76376946},
      {0.005, 19, 2.86093461},
      {0.025, 19, 2.09302405},
      {0.0005, 19, 3.88340585},
      {0.005, 30, 2.74999565},
      {0.001, 120, 3.15953878},
      {0.025, 1e9, 1.95996398},
      {1e-6, 1, std::tan(pi * (0.5 - 1e-6))},
      {1e-4, 2, (1 - 2e-4) / std::sqrt(2 * 1e-4 * (1 - 1e-4))},
  };
  for (const TableEntry& entry : entries) {
    const double t = StudentUpperQuantile(entry.tail, entry.df);
    EXPECT_NEAR(t / entry.t, 1, 2e-8) << "tail " << entry.tail << " df " << entry.df;
  }
}

TEST(StudentT, QuantileInvertsTheDistributionFarIntoTheTail) {
  for (const double df : {1.5, 7.0, 19.0, 38.7, 400.0, 5e6}) {
    for (const double tail : {1e-12, 3e-8, 1e-3, 0.2, 0.7, 0.999}) {
      const double t = StudentUpperQuantile(tail, df);
      const double back = StudentCdf(-t, df);  // Symmetric: P(T > t).
      EXPECT_NEAR(back / tail, 1, 1e-8) << "tail " << tail << " df " << df;
    }
  }
}

TEST(StudentT, NearsTheNormalDistributionSmoothlyAcrossTheSwitch) {
  const double below = StudentUpperQuantile(1e-5, 0.99e7),
               above = StudentUpperQuantile(1e-5, 1.01e7);
  EXPECT_NEAR(below, above, 1e-5);
  EXPECT_GE(below, above);
}

TEST(LogRatioStats, OfOneCaseIsTheUsualMeanAndError) {
  const std::vector<double> values{0.01, 0.03, 0.02, 0.04};
  const LogRatioStats stats = SummarizeBlocks(values);
  EXPECT_DOUBLE_EQ(stats.mean, 0.025);
  EXPECT_NEAR(stats.standard_error, std::sqrt(5e-4 / 3 / 4), 1e-15);
  EXPECT_EQ(stats.degrees_of_freedom, 3);
  EXPECT_NEAR(stats.LowerBound(0.025), 0.025 - 3.18244631 * stats.standard_error, 1e-9);
  EXPECT_NEAR(stats.UpperBound(0.025), 0.025 + 3.18244631 * stats.standard_error, 1e-9);
}

TEST(LogRatioStats, WithoutAnErrorHaveNoFiniteBound) {
  const std::vector<double> one{0.5};
  EXPECT_EQ(SummarizeBlocks(one).LowerBound(0.1), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(SummarizeBlocks({}).UpperBound(0.1), std::numeric_limits<double>::infinity());
}

CaseMeasurement MakeCase(double weight, std::vector<double> log_ratios) {
  CaseMeasurement one;
  one.weight = weight;
  one.block_log_ratios = std::move(log_ratios);
  return one;
}

TEST(LogRatioStats, OfSeveralCasesWeighMeansAndErrors) {
  Measurement both;
  both.cases = {MakeCase(1, {0.0, 0.2}), MakeCase(3, {0.3, 0.5, 0.4})};
  const LogRatioStats stats = SummarizeMeasurement(both);
  EXPECT_NEAR(stats.mean, 0.25 * 0.1 + 0.75 * 0.4, 1e-15);
  const double first = 0.0625 * 0.01, second = 0.5625 * 0.01 / 3;
  EXPECT_NEAR(stats.standard_error, std::sqrt(first + second), 1e-15);
  EXPECT_NEAR(stats.degrees_of_freedom,
              (first + second) * (first + second) / (first * first + second * second / 2), 1e-9);
  EXPECT_EQ(stats.blocks, 5);
}

TEST(LogRatioStats, DoNotCountACaseMoreForHavingMoreBlocks) {
  Measurement uneven;
  uneven.cases = {MakeCase(1, std::vector<double>(40, 0.1)),
                  MakeCase(1, std::vector<double>(20, 0.3))};
  EXPECT_NEAR(SummarizeMeasurement(uneven).mean, 0.2, 1e-15);
}

TEST(LogRatioStats, CannotBoundWhenOneCaseHasASingleBlock) {
  Measurement measurement;
  measurement.cases = {MakeCase(1, {0.1, 0.2, 0.3}), MakeCase(1, {0.4})};
  EXPECT_EQ(SummarizeMeasurement(measurement).degrees_of_freedom, 0);
}

TEST(Bootstrap, IsReproducibleAndCoversTheMean) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise(0.05, 0.01);
  std::vector<double> values(30);
  for (double& value : values) value = noise(random);
  const Interval first = BootstrapInterval(values, 0.95, 1),
                 again = BootstrapInterval(values, 0.95, 1);
  EXPECT_EQ(first.low, again.low);
  EXPECT_EQ(first.high, again.high);
  const LogRatioStats stats = SummarizeBlocks(values);
  EXPECT_NEAR(first.low, stats.mean - 1.96 * stats.standard_error, 0.3 * stats.standard_error);
  EXPECT_NEAR(first.high, stats.mean + 1.96 * stats.standard_error, 0.3 * stats.standard_error);
}

TEST(BlockLogRatios, CompareMediansOfKeptBlocks) {
  std::vector<TimingBlock> blocks(3);
  blocks[0].a_ns = {10, 30, 20};
  blocks[0].b_ns = {10, 10, 100};
  blocks[1].a_ns = {1};
  blocks[1].b_ns = {2};
  blocks[1].discarded = true;
  blocks[2].a_ns = {8, 4};
  blocks[2].b_ns = {3};
  EXPECT_THAT(BlockLogRatios(blocks), ElementsAre(std::log(2.0), std::log(2.0)));
}

}  // namespace
}  // namespace fettle::judge
