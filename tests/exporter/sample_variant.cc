// SPDX-License-Identifier: Apache-2.0
#include "tests/exporter/sample_variant.h"

#include <cmath>

#include <gtest/gtest.h>

#include "core/digest.h"
#include "core/status_macros.h"
#include "core/target.h"
#include "core/work_unit.h"
#include "judge/accept.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr char kTaskYaml[] = R"yaml(format: 1
name: scale
summary: Doubles every element.
license: Apache-2.0
dims:
  n: {min: 0, max: 4096}
args:
  - x: {role: in, dtype: f32, shape: [n], fill: {normal: [0, 1]}}
  - y: {role: out, dtype: f32, shape: [n]}
  - n: {role: scalar, dtype: i32, value: n}
baseline:
  source: kernel.cu
  tunables: {BLOCK: [64, 128, 256]}
  values: {BLOCK: 64}
  launches:
    - {kernel: scale, grid: ["ceil_div(n, BLOCK)"], block: [BLOCK], args: [x, y, n]}
reference: {source: reference.cc, function: scale_ref}
cases:
  timed: [{n: 4096}]
  checked: [{n: 1}, {n: 257}]
  held_out: 1
tolerance: {y: {rtol: 1.0e-6, atol: 1.0e-6}}
work: {bytes: "8*n", flops: "n"}
)yaml";

constexpr char kKernel[] = R"(__global__ void scale(const float* x, float* y, int n) {
  const int i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
)";

constexpr char kReference[] = R"(#include <fettle_reference.h>
extern "C" void scale_ref(fettle_ref* ref) {
  fettle_result& y = ref->results[0];
  for (int64_t i = y.row_begin; i < y.row_end; ++i) {
    y.values[i - y.row_begin] = 2 * ref->tensors[0].values[i];
  }
}
)";

CaseReport PassedCase(const std::string& label) {
  CaseReport report;
  report.case_label = label;
  report.passed = true;
  report.outputs.push_back({.output = "y", .worst = 0.25, .rms = 1e-8, .compared = 1});
  report.checks = {"poison_a", "guards"};
  return report;
}

CaseMeasurement SampleMeasurement() {
  CaseMeasurement measurement;
  measurement.case_label = "timed/0";
  double sum = 0;
  for (int block = 0; block < 20; ++block) {
    TimingBlock samples;
    const double wobble = 1 + 0.001 * (block % 5);
    for (int i = 0; i < 10; ++i) {
      samples.a_ns.push_back(1200 * wobble + i);
      samples.b_ns.push_back(1000 + i);
    }
    const double ratio = std::log((1200 * wobble + 4.5) / 1004.5);
    measurement.block_log_ratios.push_back(ratio);
    measurement.blocks.push_back(samples);
    sum += ratio;
  }
  measurement.ratio = std::exp(sum / 20);
  measurement.ratio_low = measurement.ratio * 0.999;
  measurement.ratio_high = measurement.ratio * 1.001;
  measurement.a_median_ns = 1206.9;
  measurement.b_median_ns = 1004.5;
  measurement.roofline_fraction = 0.5;
  return measurement;
}

}  // namespace

absl::StatusOr<std::string> FakeBlobs::Get(std::string_view digest) {
  const auto found = blobs.find(std::string(digest));
  if (found == blobs.end()) return absl::NotFoundError("no such blob");
  return found->second;
}

absl::StatusOr<std::string> FakeBlobs::Put(std::string_view bytes) {
  std::string digest = Sha256Hex(bytes);
  blobs[digest] = std::string(bytes);
  return digest;
}

std::string SampleTaskYaml() { return kTaskYaml; }

json SampleProvenance(FakeBlobs& blobs, const std::string& id, int block) {
  return SampleProvenance(blobs, id, block, kTaskYaml);
}

json SampleProvenance(FakeBlobs& blobs, const std::string& id, int block,
                      const std::string& task_yaml) {
  const TaskFiles files = {
      {"task.yaml", task_yaml}, {"kernel.cu", kKernel}, {"reference.cc", kReference}};
  std::vector<TaskProblem> problems;
  const auto task = Task::Parse(files, &problems);
  EXPECT_TRUE(task.ok()) << FormatProblems(problems);
  if (!task.ok()) return json::object();
  const KernelSpec& baseline = (*task)->baseline();
  const TunableValues values = {{"BLOCK", block}};
  const Target cpu = *FindTarget("cpu");
  const auto cases = *(*task)->BindCases(CaseSet::kTimed, 1);
  const auto inputs = *(*task)->BuildInputsFor(baseline, values, cases[0], cpu);
  VerificationReport verification;
  verification.passed = true;
  verification.cases = {PassedCase("timed/0"), PassedCase("checked/0"), PassedCase("checked/1")};
  Measurement measurement;
  measurement.method = "interleaved_blocks";
  measurement.cases = {SampleMeasurement()};
  measurement.device = json{{"model", "Sample CPU"}};
  const double ratio = measurement.cases[0].ratio;
  const std::string object = *blobs.Put("object of " + id);
  return {{"format", 1},
          {"variant",
           {{"id", id},
            {"status", "accepted"},
            {"job_id", "job1"},
            {"accepted_ns", 1},
            {"candidate_digest", CandidateDigest((*task)->digest(), "cpu", baseline, values)},
            {"values", values},
            {"ratio", ratio},
            {"ratio_low", ratio * 0.999},
            {"ratio_high", ratio * 1.001},
            {"ratio_declared", ratio},
            {"ratio_tuned", 0},
            {"is_tuned_baseline", true},
            {"roofline_fraction", 0.5}}},
          {"task",
           {{"name", (*task)->name()},
            {"digest", (*task)->digest()},
            {"blob", *blobs.Put(PackTaskFiles(files))}}},
          {"target", "cpu"},
          {"device", {{"model", "Sample CPU"}}},
          {"kernel", ToJson(baseline)},
          {"baseline", {{"kernel", ToJson(baseline)}, {"values", baseline.values}}},
          {"denominator", {{"kernel", ToJson(baseline)}, {"values", baseline.values}}},
          {"parents", json::array()},
          {"proposer", {{"name", "tuner"}, {"seed", 7}}},
          {"builds",
           {{{"key", inputs.key},
             {"code_object", object},
             {"entries", {"scale"}},
             {"symbols", {"scale"}},
             {"compiler", "g++ 12.2.0"},
             {"cache_hit", false},
             {"elapsed_ns", 1},
             {"log", ""},
             {"diagnostics", json::array()},
             {"facts", json::object()}}}},
          {"verification", ToJson(verification)},
          {"measurement", ToJson(measurement)},
          {"environment", {{"host", "sample"}}},
          {"fettle_version", "0.1.0"}};
}

VariantProvenance Parsed(const json& document) {
  auto variant = ParseProvenance(document.dump());
  EXPECT_TRUE(variant.ok()) << variant.status();
  return variant.ok() ? *std::move(variant) : VariantProvenance();
}

BundleFiles SampleBundle() {
  FakeBlobs blobs;
  const std::vector<VariantProvenance> variants = {Parsed(SampleProvenance(blobs, "v1", 128)),
                                                   Parsed(SampleProvenance(blobs, "v2", 256))};
  auto files = BuildBundle(variants, blobs);
  EXPECT_TRUE(files.ok()) << files.status();
  return files.ok() ? *std::move(files) : BundleFiles();
}

}  // namespace fettle
