// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/fake_results.h"

#include <algorithm>
#include <cmath>

namespace fettle {
namespace {

constexpr int kBlocks = 24;
constexpr double kBaselineNs = 10'000;

UnitResult Started(const WorkUnit& unit) {
  UnitResult result;
  result.unit_id = unit.id;
  result.attempt = unit.attempt;
  result.compile_ns = 1'000'000;
  result.device_ns = 2'000'000;
  result.wall_ns = 3'000'000;
  result.environment = {{"host", "fake"},
                        {"device", {{"model", "fake cpu"}, {"driver", "none"}}},
                        {"compiler", "fake compiler 1"}};
  return result;
}

Measurement MakeMeasurement(double ratio) {
  Measurement measurement;
  measurement.method = "fake";
  measurement.device = {{"model", "fake cpu"}};
  measurement.device_ns = 2'000'000;
  CaseMeasurement one;
  one.case_label = "timed/0";
  for (int i = 0; i < kBlocks; ++i) {
    const double noise = 0.001 * (i % 2 == 0 ? 1 : -1);
    TimingBlock block;
    const double b = kBaselineNs / ratio * std::exp(noise);
    block.a_ns = {kBaselineNs, kBaselineNs, kBaselineNs};
    block.b_ns = {b, b, b};
    one.blocks.push_back(block);
    one.block_log_ratios.push_back(std::log(kBaselineNs / b));
  }
  one.a_median_ns = kBaselineNs;
  one.b_median_ns = kBaselineNs / ratio;
  one.ratio = ratio;
  one.ratio_low = ratio * 0.999;
  one.ratio_high = ratio * 1.001;
  one.roofline_fraction = std::min(0.9, 0.1 * ratio);  // No search stops there.
  one.floor_ns = 1'000;
  measurement.cases.push_back(std::move(one));
  return measurement;
}

VerificationReport MakeVerification(const WorkUnit& unit) {
  VerificationReport report;
  report.passed = true;
  report.seeds = {unit.seed};
  report.check_mode = "passed";
  CaseReport checked;
  checked.case_label = "checked/0";
  checked.describe = "n=1";
  checked.passed = true;
  report.cases.push_back(checked);
  if (unit.kind == UnitKind::kConfirm) {
    CaseReport held_out;
    held_out.case_label = "held_out/0";
    held_out.passed = true;
    report.cases.push_back(held_out);
  }
  return report;
}

}  // namespace

UnitResult PassedRegistration(const WorkUnit& unit) {
  UnitResult result = Started(unit);
  result.verification = MakeVerification(unit);
  result.registration = {{"mutations", nlohmann::json::array()}};
  return result;
}

UnitResult JudgedResult(const WorkUnit& unit, Verdict verdict, Stage stage,
                        const std::string& reason_code) {
  UnitResult result = Started(unit);
  VerdictRecord record;
  record.verdict = verdict;
  record.stage = stage;
  record.reason_code = reason_code;
  record.message = "scripted " + reason_code;
  record.evidence = nlohmann::json::object();
  result.verdict = record;
  return result;
}

UnitResult RefusedRegistration(const WorkUnit& unit, const std::string& reason_code) {
  return JudgedResult(unit, Verdict::kRefused, Stage::kRegister, reason_code);
}

UnitResult MeasuredResult(const WorkUnit& unit, double ratio, double over_incumbent) {
  UnitResult result = Started(unit);
  BuildRecord build;
  build.key = "key";
  build.code_object = std::string(64, 'c');
  build.entries = {"scale"};
  build.symbols = {"scale"};
  build.compiler = "fake compiler 1";
  build.facts = nlohmann::json::object();
  build.diagnostics = nlohmann::json::array();
  result.builds.push_back(std::move(build));
  result.verification = MakeVerification(unit);
  result.measurement = MakeMeasurement(ratio);
  if (unit.incumbent.has_value()) result.against_incumbent = MakeMeasurement(over_incumbent);
  return result;
}

UnitResult WithinCap(const WorkUnit& unit, UnitResult result) {
  const std::int64_t cap_ns = unit.device_cap_ms * 1'000'000;
  if (cap_ns == 0 || result.device_ns <= cap_ns) return result;
  UnitResult cut = JudgedResult(unit, Verdict::kUnmeasurable, Stage::kMeasure, kDeviceTimeReason);
  cut.device_ns = cap_ns;
  return cut;
}

}  // namespace fettle
