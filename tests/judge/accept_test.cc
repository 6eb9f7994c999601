// SPDX-License-Identifier: Apache-2.0
#include "judge/accept.h"

#include <cmath>
#include <limits>
#include <random>

namespace fettle::judge {
namespace {

// A case whose block log-ratios have exactly this mean and standard deviation.
CaseMeasurement MakeCase(double ratio, double deviation, int blocks = 20, double weight = 1) {
  CaseMeasurement one;
  one.case_label = "timed/0";
  one.weight = weight;
  const double scale = std::sqrt((blocks - 1.0) / blocks);
  for (int i = 0; i < blocks; ++i) {
    one.block_log_ratios.push_back(std::log(ratio) + deviation * (i % 2 == 0 ? scale : -scale));
  }
  return one;
}

Measurement Make(std::vector<CaseMeasurement> cases) {
  Measurement measurement;
  measurement.cases = std::move(cases);
  return measurement;
}

ConfirmationDecision Decide(const Measurement& measurement, int k = 1, double aa_spread = 0) {
  return DecideConfirmation(measurement, k, aa_spread, AcceptanceRule{});
}

TEST(DecideConfirmation, AcceptsAClearGain) {
  const ConfirmationDecision decision = Decide(Make({MakeCase(1.05, 0.01)}));
  EXPECT_EQ(decision.record.verdict, Verdict::kWin);
  EXPECT_EQ(decision.record.stage, Stage::kConfirm);
  EXPECT_NEAR(decision.ratio, 1.05, 1e-9);
  EXPECT_NEAR(std::log(decision.lower_bound), std::log(1.05) - 2.86093461 * 0.01 / std::sqrt(20.0),
              1e-8);
  EXPECT_NEAR(decision.threshold, 1.01, 1e-12);
  EXPECT_EQ(decision.record.evidence.at("blocks"), 20);
}

TEST(DecideConfirmation, KeepsTheThreeWaysOfNotWinningApart) {
  const ConfirmationDecision none = Decide(Make({MakeCase(1.005, 0.001)}));
  EXPECT_EQ(none.record.verdict, Verdict::kNoWin);
  EXPECT_EQ(none.record.reason_code, "not_faster");
  const ConfirmationDecision unsure = Decide(Make({MakeCase(1.03, 0.06)}));
  EXPECT_EQ(unsure.record.verdict, Verdict::kAmbiguous);
  EXPECT_EQ(unsure.record.reason_code, "not_confirmed");
  CaseMeasurement slow = MakeCase(0.97, 0.001);
  slow.case_label = "timed/1";
  const ConfirmationDecision uneven = Decide(Make({MakeCase(2, 0.001), slow}));
  EXPECT_EQ(uneven.record.verdict, Verdict::kNoWin);
  EXPECT_EQ(uneven.record.reason_code, "shape_slower");
  EXPECT_EQ(uneven.record.case_label, "timed/1");
}

TEST(DecideConfirmation, HoldsToTheFloorEvenForACaseOfNoWeight) {
  const ConfirmationDecision decision =
      Decide(Make({MakeCase(2, 0.001), MakeCase(0.9, 0.001, 20, 0)}));
  EXPECT_EQ(decision.record.reason_code, "shape_slower");
}

TEST(DecideConfirmation, AsksMoreOfALaterConfirmation) {
  const Measurement measurement = Make({MakeCase(1.02, 0.012)});
  EXPECT_EQ(Decide(measurement, 1).record.verdict, Verdict::kWin);
  EXPECT_EQ(Decide(measurement, 20).record.verdict, Verdict::kAmbiguous);
  EXPECT_LT(Decide(measurement, 20).lower_bound, Decide(measurement, 1).lower_bound);
}

TEST(DecideConfirmation, SpendsNoMoreThanItsErrorBudget) {
  double spent = 0;
  for (int k = 1; k <= 100000; ++k) spent += ConfirmationAlpha(AcceptanceRule{}, k);
  EXPECT_LT(spent, 0.01);
  EXPECT_GT(spent, 0.00999);
}

TEST(DecideConfirmation, NeedsTwiceTheSpreadOfIdenticalKernels) {
  const Measurement measurement = Make({MakeCase(1.05, 0.001)});
  EXPECT_EQ(Decide(measurement, 1, 0.02).record.verdict, Verdict::kWin);
  EXPECT_EQ(Decide(measurement, 1, 0.03).record.verdict, Verdict::kNoWin);
  EXPECT_EQ(Decide(measurement, 1, -0.03).record.verdict, Verdict::kNoWin);  // A magnitude.
  CaseMeasurement noisy = MakeCase(1.05, 0.001);
  noisy.aa_spread = 0.03;
  EXPECT_EQ(Decide(Make({noisy})).record.verdict, Verdict::kNoWin);
}

TEST(DecideConfirmation, RefusesWhatItCannotMeasure) {
  EXPECT_EQ(Decide(Make({})).record.reason_code, "no_timed_case");
  EXPECT_EQ(Decide(Make({MakeCase(2, 0, 20, 0)})).record.reason_code, "no_timed_case");
  EXPECT_EQ(Decide(Make({MakeCase(2, 0, 9)})).record.reason_code, "too_few_blocks");
  CaseMeasurement throttled = MakeCase(2, 0.001);
  throttled.discarded_blocks = 21;
  EXPECT_EQ(Decide(Make({throttled})).record.reason_code, "unsteady_device");
  CaseMeasurement impossible = MakeCase(2, 0.001);
  impossible.roofline_fraction = 1.2;
  EXPECT_EQ(Decide(Make({impossible})).record.reason_code, "below_floor");
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    CaseMeasurement broken = MakeCase(2, 0.001);
    broken.block_log_ratios[3] = value;
    const ConfirmationDecision decision = Decide(Make({broken}));
    EXPECT_EQ(decision.record.verdict, Verdict::kUnmeasurable);
    EXPECT_EQ(decision.record.reason_code, "invalid_sample");
    EXPECT_NO_THROW(decision.record.evidence.dump());
  }
}

TEST(DecideConfirmation, NeverWinsOnMoreNoiseWhereItDidNotOnLess) {
  bool won = true;
  for (double deviation = 0; deviation < 0.1; deviation += 0.002) {
    const bool wins = Decide(Make({MakeCase(1.04, deviation)})).record.verdict == Verdict::kWin;
    EXPECT_TRUE(won || !wins) << deviation;
    won = wins;
  }
  EXPECT_FALSE(won);
}

TEST(IsContender, MustBeatTheIncumbentAndTheMinimumGain) {
  const AcceptanceRule rule;
  EXPECT_TRUE(IsContender(Make({MakeCase(1.05, 0.01)}), 1.0, rule));
  EXPECT_TRUE(IsContender(Make({MakeCase(1.05, 0.01)}), 1.04, rule));
  EXPECT_FALSE(IsContender(Make({MakeCase(1.05, 0.01)}), 1.049, rule));
  EXPECT_FALSE(IsContender(Make({MakeCase(1.009, 0.0001)}), 1.0, rule));
  EXPECT_FALSE(IsContender(Make({MakeCase(1.05, 0.2)}), 1.0, rule));
  EXPECT_FALSE(IsContender(Make({MakeCase(3, 0.01), MakeCase(0.9, 0.01)}), 1.0, rule));
  EXPECT_FALSE(IsContender(Make({}), 1.0, rule));
}

TEST(BeatsIncumbent, NeedsABoundAboveOne) {
  const AcceptanceRule rule;
  EXPECT_TRUE(BeatsIncumbent(Make({MakeCase(1.01, 0.005)}), 1, rule));
  EXPECT_FALSE(BeatsIncumbent(Make({MakeCase(1.002, 0.01)}), 1, rule));
  EXPECT_FALSE(BeatsIncumbent(Make({}), 1, rule));
}

// A screening as the runner takes it: a few pairs, no more.
Measurement Screening(double ratio, double noise, int pairs, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, noise);
  TimingBlock block;
  for (int i = 0; i < pairs; ++i) {
    block.a_ns.push_back(1e5 * std::exp(normal(random)));
    block.b_ns.push_back(1e5 / ratio * std::exp(normal(random)));
  }
  CaseMeasurement one;
  one.blocks = {block};
  one.block_log_ratios = BlockLogRatios(one.blocks);
  return Make({one});
}

TEST(ScreenedOut, DropsWhatIsClearlySlower) {
  int dropped = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    dropped += ScreenedOut(Screening(0.8, 0.01, 6, seed), 1.0) ? 1 : 0;
  }
  EXPECT_GT(dropped, 980);
}

TEST(ScreenedOut, KeepsAnHonestGainOfThreePercent) {
  for (const double incumbent : {1.0, 1.7}) {
    int dropped = 0;
    for (std::uint64_t seed = 0; seed < 4000; ++seed) {
      dropped += ScreenedOut(Screening(1.03 * incumbent, 0.03, 6, seed), incumbent) ? 1 : 0;
    }
    EXPECT_EQ(dropped, 0) << incumbent;
  }
}

TEST(ScreenedOut, DropsACaseThatCanNeverPassTheFloor) {
  Measurement measurement = Screening(3, 0.01, 6, 1);
  EXPECT_FALSE(SlowerOnOneCase(measurement.cases[0]));
  measurement.cases.push_back(Screening(0.5, 0.01, 6, 2).cases[0]);
  EXPECT_TRUE(ScreenedOut(measurement, 1.0));
  EXPECT_TRUE(SlowerOnOneCase(measurement.cases[1]));
}

TEST(ScreenedOut, KeepsWhatItHasNoDataOn) {
  EXPECT_FALSE(ScreenedOut(Make({}), 1.0));
  EXPECT_FALSE(ScreenedOut(Make({CaseMeasurement{}}), 1.0));
  EXPECT_FALSE(SlowerOnOneCase(CaseMeasurement{}));
}

TEST(EnoughBlocks, FollowsTheNoise) {
  EXPECT_FALSE(EnoughBlocks(MakeCase(1, 0, 19).block_log_ratios, 0.005));
  EXPECT_TRUE(EnoughBlocks(MakeCase(1, 0, 20).block_log_ratios, 0.005));
  EXPECT_TRUE(EnoughBlocks(MakeCase(1, 0.01, 20).block_log_ratios, 0.005));
  EXPECT_FALSE(EnoughBlocks(MakeCase(1, 0.02, 20).block_log_ratios, 0.005));
  EXPECT_FALSE(EnoughBlocks(MakeCase(1, 0.02, 40).block_log_ratios, 0.005));
  EXPECT_TRUE(EnoughBlocks(MakeCase(1, 0.02, 80).block_log_ratios, 0.005));
}

TEST(EnoughBlocks, IgnoresTheMean) {
  for (int blocks = 1; blocks < 60; ++blocks) {
    EXPECT_EQ(EnoughBlocks(MakeCase(1, 0.013, blocks).block_log_ratios, 0.005),
              EnoughBlocks(MakeCase(1.5, 0.013, blocks).block_log_ratios, 0.005));
  }
}

TEST(EnoughBlocks, DoesNotForgetALargeSpreadSeenBefore) {
  std::vector<double> values = MakeCase(1, 0.02, 20).block_log_ratios;
  std::vector<double> quiet = values;
  while (quiet.size() < 45) quiet.push_back(0);  // The spread over all 45 is now 0.013.
  EXPECT_LE(2.02 * SummarizeBlocks(quiet).standard_error, 0.005);
  EXPECT_FALSE(EnoughBlocks(quiet, 0.005));
}

}  // namespace
}  // namespace fettle::judge
