// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the compiler, verifier and profiler saw. One JSON form of each, used on the wire, in the
// store, in bundles and in --json output alike (ToJson / ...FromJson in evidence.cc).

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/verdict.h"

namespace fettle {

// Error figures of one output in one case.
struct OutputErrors {
  std::string output;
  double worst = 0;             // Largest error over its tolerance; passes when <= 1.
  double rms = 0;               // Root mean square of the absolute error.
  double reference_rms = 0;     // Root mean square of the reference.
  std::int64_t mismatches = 0;  // Elements over their tolerance.
  std::int64_t compared = 0;
  // First mismatching element, if any: index in the dense output, expected and actual values.
  std::int64_t first_index = -1;
  double expected = 0, actual = 0;
};

struct CaseReport {
  std::string case_label;
  std::string describe;  // "rows=3 cols=257 T=f16"; empty for held-out cases.
  bool passed = false;
  bool unsupported = false;  // Outside `requires`: reported, not dropped.
  std::vector<OutputErrors> outputs;
  std::vector<std::string> checks;  // Names of the checks that ran: "poison_a", "guards", ...
};

struct VerificationReport {
  bool passed = false;
  VerdictRecord failure;  // Valid when !passed.
  std::vector<CaseReport> cases;
  std::vector<std::uint64_t> seeds;  // Secret until the job ends.
  std::string check_mode;            // CPU check mode: "passed", "failed", "not_run: <why>".
  // Tools of compute-sanitizer over a would-be winner, in the same words: {"memcheck": "passed",
  // "racecheck": "failed: <finding>"}. Empty: not asked for.
  std::map<std::string, std::string> sanitizers;
  std::vector<std::string> warnings;
};

// One block of interleaved launches of both sides of a comparison.
struct TimingBlock {
  std::vector<double> a_ns, b_ns;  // a: baseline, b: candidate; one entry per sample.
  double clock_mhz = 0;            // 0 where unknown.
  double power_w = 0;
  double temperature_c = 0;
  bool discarded = false;  // Throttled, or clocks disagreed.
  std::string discard_reason;
};

// Timing of one timed case.
struct CaseMeasurement {
  std::string case_label;
  double weight = 1;
  std::vector<TimingBlock> blocks;
  std::vector<double> block_log_ratios;  // ln(median a / median b) of the kept blocks; > 0: b wins.
  double a_median_ns = 0, b_median_ns = 0;
  double ratio = 1;                         // exp(mean of block_log_ratios): speed-up of b over a.
  double ratio_low = 1, ratio_high = 1;     // 95 % bootstrap interval, for display.
  double aa_spread = 0;                     // A/A spread as |ln ratio| measured in the same run.
  double bytes_per_s = 0, flops_per_s = 0;  // Of b, from the task's work formula.
  double roofline_fraction = 0;  // Floor time over b's median; 0 where no ceiling is known.
  double floor_ns = 0;
  std::int64_t launches_per_sample = 1;
  std::int64_t discarded_blocks = 0;
};

struct Measurement {
  std::string method;  // "interleaved_blocks cold cpu_clock", ...
  std::vector<CaseMeasurement> cases;
  double calibration_error = 0;  // |measured / requested - 1| of the calibration spin.
  double device_ns = 0;          // Device time spent, for budgets.
  nlohmann::json device;         // Device identity and driver as recorded then.
};

nlohmann::json ToJson(const VerificationReport& report);
absl::StatusOr<VerificationReport> VerificationReportFromJson(const nlohmann::json& json);
nlohmann::json ToJson(const Measurement& measurement);
absl::StatusOr<Measurement> MeasurementFromJson(const nlohmann::json& json);

}  // namespace fettle
