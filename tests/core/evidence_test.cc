// SPDX-License-Identifier: Apache-2.0
#include "core/evidence.h"

#include <cmath>

#include "core/verdict.h"

namespace fettle {
namespace {

using nlohmann::json;

VerdictRecord SampleVerdict() {
  VerdictRecord record;
  record.verdict = Verdict::kIncorrect;
  record.stage = Stage::kVerify;
  record.reason_code = "tolerance";
  record.case_label = "checked/2";
  record.message = "y[3] is off";
  record.evidence = {{"index", 3}};
  return record;
}

Measurement SampleMeasurement() {
  Measurement measurement;
  measurement.method = "interleaved_blocks cold";
  CaseMeasurement entry;
  entry.case_label = "timed/0";
  entry.weight = 2;
  entry.blocks.push_back({{1, 2}, {3, 4}, 1700, 300, 50, true, "throttled"});
  entry.block_log_ratios = {0.25, -0.5};
  entry.ratio_high = std::numeric_limits<double>::infinity();
  measurement.cases.push_back(entry);
  measurement.device = {{"model", "x"}};
  return measurement;
}

TEST(VerdictJson, NamesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(Verdict::kUnsupportedShape); ++i) {
    const auto verdict = static_cast<Verdict>(i);
    EXPECT_EQ(ParseVerdict(VerdictName(verdict)), verdict);
  }
  for (int i = 0; i <= static_cast<int>(Stage::kRegister); ++i) {
    EXPECT_EQ(ParseStage(StageName(static_cast<Stage>(i))), static_cast<Stage>(i));
  }
  EXPECT_FALSE(ParseVerdict("CONTENDER").has_value());
}

TEST(VerdictJson, RoundTrips) {
  const json first = ToJson(SampleVerdict());
  const auto back = VerdictRecordFromJson(json::parse(first.dump()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(ToJson(*back), first);
}

TEST(VerificationReportJson, RoundTripsFailuresAndNonFiniteFigures) {
  VerificationReport report;
  report.failure = SampleVerdict();
  report.seeds = {std::numeric_limits<std::uint64_t>::max(), 1};
  CaseReport entry;
  entry.case_label = "checked/0";
  entry.checks = {"poison_a", "guards"};
  OutputErrors errors;
  errors.output = "y";
  errors.worst = std::numeric_limits<double>::infinity();
  errors.actual = std::nan("");
  entry.outputs.push_back(errors);
  report.cases.push_back(entry);
  report.sanitizers = {{"memcheck", "passed"}, {"racecheck", "not_run: Device not supported"}};
  const json first = ToJson(report);
  const auto back = VerificationReportFromJson(json::parse(first.dump()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(ToJson(*back), first);
  EXPECT_TRUE(std::isinf(back->cases[0].outputs[0].worst));
  EXPECT_TRUE(std::isnan(back->cases[0].outputs[0].actual));
  EXPECT_EQ(back->sanitizers, report.sanitizers);
  json wrong = first;
  wrong["sanitizers"]["memcheck"] = 1;
  EXPECT_FALSE(VerificationReportFromJson(wrong).ok());
}

TEST(MeasurementJson, RoundTrips) {
  const json first = ToJson(SampleMeasurement());
  const auto back = MeasurementFromJson(json::parse(first.dump()));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(ToJson(*back), first);
}

TEST(MeasurementJson, RefusesUnknownMissingAndMistypedFields) {
  json unknown = ToJson(SampleMeasurement());
  unknown["cases"][0]["speed"] = 3;
  EXPECT_THAT(std::string(MeasurementFromJson(unknown).status().message()),
              ::testing::HasSubstr("unknown field 'speed'"));
  json missing = ToJson(SampleMeasurement());
  missing["cases"][0].erase("ratio");
  EXPECT_THAT(std::string(MeasurementFromJson(missing).status().message()),
              ::testing::HasSubstr("case measurement.ratio: is missing"));
  json mistyped = ToJson(SampleMeasurement());
  mistyped["cases"][0]["blocks"][0]["a_ns"] = "fast";
  EXPECT_EQ(MeasurementFromJson(mistyped).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(MeasurementFromJson(json::array()).ok());
}

TEST(Verdict, WhatSaysNothingOfTheKernelLeavesItOpen) {
  const auto record = [](Verdict verdict, const std::string& code) {
    VerdictRecord one;
    one.verdict = verdict;
    one.reason_code = code;
    return one;
  };
  for (const char* code : {"too_few_blocks", "unsteady_device", "calibration", "no_checked_sample",
                           "incumbent_not_measured"}) {
    EXPECT_TRUE(NotMeasured(record(Verdict::kUnmeasurable, code))) << code;
    EXPECT_TRUE(LeavesOpen(record(Verdict::kUnmeasurable, code))) << code;
  }
  EXPECT_TRUE(LeavesOpen(record(Verdict::kAmbiguous, "not_confirmed")));
  EXPECT_FALSE(NotMeasured(record(Verdict::kAmbiguous, "not_confirmed")));
  EXPECT_FALSE(LeavesOpen(record(Verdict::kUnmeasurable, "below_floor")));
  EXPECT_FALSE(LeavesOpen(record(Verdict::kUnmeasurable, "emulated")));
  for (const Verdict verdict : {Verdict::kWin, Verdict::kNoWin, Verdict::kIncorrect}) {
    EXPECT_FALSE(LeavesOpen(record(verdict, "too_few_blocks")));
  }
}

}  // namespace
}  // namespace fettle
