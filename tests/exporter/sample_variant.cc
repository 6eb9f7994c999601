// SPDX-License-Identifier: Apache-2.0
#include "tests/exporter/sample_variant.h"

#include <cmath>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "compiler/compile_cache.h"
#include "compiler/cpu_compiler.h"
#include "core/digest.h"
#include "core/status_macros.h"
#include "core/target.h"
#include "core/work_unit.h"
#include "exporter/signature.h"
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

// Row sums, with a barrier, so that the fibers of the cpu host are used too.
constexpr char kGuardYaml[] = R"yaml(format: 1
name: row_sum
summary: Sums rows, scaled.
license: Apache-2.0
types: {T: [f32, f64]}
dims:
  rows: {min: 0, max: 4096}
  cols: {min: 1, max: 1024}
  mode: {in: [1, 2]}
  longer: {let: "max(rows, cols)"}
valid: ["rows * cols <= 2^20"]
args:
  - x: {role: in, dtype: $T, shape: [rows, cols], fill: {normal: [0, 1]}}
  - y: {role: out, dtype: $T, shape: [rows]}
  - rows: {role: scalar, dtype: i32, value: rows}
  - cols: {role: scalar, dtype: i32, value: cols}
  - mode: {role: scalar, dtype: i32, value: mode}
  - scale: {role: scalar, dtype: f32, value: per_case, from: [0.5, 2]}
baseline:
  source: kernel.cu
  tunables: {BLOCK: [32, 64, 128]}
  values: {BLOCK: 32}
  constraints: ["BLOCK <= target.max_block"]
  launches:
    - {kernel: "row_sum<$T>", grid: [rows], block: [BLOCK], args: [x, y, rows, cols, mode, scale]}
reference: {source: reference.cc, function: row_sum_ref}
cases:
  timed: [{T: f32, rows: 512, cols: 256, mode: 1, scale: 0.5}, {T: f32, rows: 64, cols: 1024, mode: 1, scale: 2}, {T: f64, rows: 128, cols: 128, mode: 2, scale: 2}]
  checked: [{T: f32, rows: 1, cols: 1, mode: 2, scale: 2}, {T: f64, rows: 7, cols: 64, mode: 1, scale: 0.5}, {T: f32, rows: 33, cols: 100, mode: 1, scale: 2}, {T: f64, rows: 0, cols: 8, mode: 1, scale: 0.5}]
  held_out: 1
tolerance: {y: {rtol: 1.0e-4, atol: 1.0e-4}}
work: {bytes: "sizeof(T)*(rows*cols+rows)", flops: "rows*cols"}
)yaml";

constexpr char kGuardKernel[] = R"(template <typename T>
__global__ void row_sum(const T* x, T* y, int rows, int cols, int mode, float scale) {
  __shared__ T part[BLOCK];
  const int row = blockIdx.x;
  T sum = 0;
  for (int c = threadIdx.x; c < cols; c += BLOCK) sum += x[(long long)row * cols + c];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int step = BLOCK / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[row] = part[0] * (T)scale * (T)mode;
}
)";

constexpr char kGuardReference[] = R"(#include <fettle_reference.h>
extern "C" void row_sum_ref(fettle_ref* ref) {
  fettle_result& y = ref->results[0];
  int64_t cols = 1, mode = 1;
  for (int i = 0; i < ref->dim_count; ++i) {
    if (!strcmp(ref->dims[i].name, "cols")) cols = ref->dims[i].values[0];
    if (!strcmp(ref->dims[i].name, "mode")) mode = ref->dims[i].values[0];
  }
  for (int64_t r = y.row_begin; r < y.row_end; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += ref->tensors[0].values[r * cols + c];
    y.values[r - y.row_begin] = sum * ref->scalars[0].values[0] * (double)mode;
  }
}
)";

// The processor's name, as the cpu device and the exported loader read it.
std::string ProcessorModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos && colon + 2 <= line.size()) {
      return line.substr(colon + 2);
    }
  }
  return "x86-64 processor";
}

struct Compiled {
  std::string object, compiler;
  std::vector<std::string> symbols;
};

// Compiles for the cpu, remembered on disk: every test is a process of its own.
Compiled CompileForCpu(const KernelSpec& kernel, const Task::BuildInputs& inputs) {
  const std::string folder = std::string(FETTLE_BIN_DIR) + "/../exporter_test_cache";
  static const auto compiler = CpuCompiler::Create({.cache_dir = folder});
  static const auto cache = CompileCache::Open({.folder = folder + "/objects"});
  EXPECT_TRUE(compiler.ok() && cache.ok());
  if (!compiler.ok() || !cache.ok()) return {};
  const auto caching = MakeCachingCompiler(**compiler, **cache);
  const auto result = caching->Compile({.target = *FindTarget("cpu"),
                                        .dialect = kernel.dialect,
                                        .source_name = kernel.source_name,
                                        .source = kernel.source,
                                        .headers = kernel.headers,
                                        .macros = inputs.macros,
                                        .entries = inputs.entries},
                                       {});
  EXPECT_TRUE(result.ok() && result->accepted)
      << (result.ok() ? result->log : std::string(result.status().message()));
  if (!result.ok() || !result->accepted) return {};
  return {result->code_object, result->compiler, result->symbols};
}

CaseReport PassedCase(const std::string& label) {
  CaseReport report;
  report.case_label = label;
  report.passed = true;
  report.outputs.push_back({.output = "y", .worst = 0.25, .rms = 1e-8, .compared = 1});
  report.checks = {"poison_a", "guards"};
  return report;
}

CaseMeasurement SampleMeasurement(const std::string& label, double weight, double wanted) {
  CaseMeasurement measurement;
  measurement.case_label = label;
  measurement.weight = weight;
  double sum = 0;
  for (int block = 0; block < 20; ++block) {
    TimingBlock samples;
    const double wobble = 1 + 0.001 * (block % 5);
    for (int i = 0; i < 10; ++i) {
      samples.a_ns.push_back(1000 * wanted * wobble + i);
      samples.b_ns.push_back(1000 + i);
    }
    const double ratio = std::log((1000 * wanted * wobble + 4.5) / 1004.5);
    measurement.block_log_ratios.push_back(ratio);
    measurement.blocks.push_back(samples);
    sum += ratio;
  }
  measurement.ratio = std::exp(sum / 20);
  measurement.ratio_low = measurement.ratio * 0.999;
  measurement.ratio_high = measurement.ratio * 1.001;
  measurement.a_median_ns = 1000 * wanted * 1.002 + 4.5;
  measurement.b_median_ns = 1004.5;
  measurement.roofline_fraction = 0.5;
  return measurement;
}

std::shared_ptr<const Task> ParsedTask(const TaskFiles& files) {
  std::vector<TaskProblem> problems;
  auto task = Task::Parse(files, &problems);
  EXPECT_TRUE(task.ok()) << FormatProblems(problems);
  return task.ok() ? *task : nullptr;
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

TaskFiles GuardTask() {
  return {
      {"task.yaml", kGuardYaml}, {"kernel.cu", kGuardKernel}, {"reference.cc", kGuardReference}};
}

json MakeProvenance(FakeBlobs& blobs, const SampleSpec& spec) {
  const auto task = ParsedTask(spec.task);
  if (task == nullptr) return json::object();
  const KernelSpec& baseline = task->baseline();
  json block = ToJson(baseline);
  block["requires"] = spec.requirements;
  std::vector<TaskProblem> problems;
  const auto kernel = task->ParseKernelSpec(block, &problems);
  EXPECT_TRUE(kernel.ok()) << FormatProblems(problems);
  const Target target = *FindTarget(spec.target);
  Measurement measurement;
  measurement.method = "interleaved_blocks";
  measurement.device = json{{"model", ProcessorModel()}};
  VerificationReport verification;
  verification.passed = true;
  verification.check_mode = "passed";
  std::map<std::string, Task::BuildInputs> builds;
  std::size_t timed = 0;
  for (const CaseSet set : {CaseSet::kTimed, CaseSet::kChecked}) {
    const std::vector<BoundCase> cases = *task->BindCases(set, 1, target);
    for (const BoundCase& bound_case : cases) {
      const bool supported = *task->Supports(*kernel, bound_case);
      CaseReport report = PassedCase(bound_case.label);
      report.unsupported = !supported;
      report.passed = supported;
      verification.cases.push_back(report);
      const double wanted =
          set == CaseSet::kTimed && timed < spec.ratios.size() ? spec.ratios[timed] : 1.2;
      if (set == CaseSet::kTimed) ++timed;
      if (!supported) continue;
      if (set == CaseSet::kTimed) {
        measurement.cases.push_back(SampleMeasurement(bound_case.label, bound_case.weight, wanted));
      }
      const auto inputs = *task->BuildInputsFor(*kernel, spec.values, bound_case, target);
      builds.emplace(inputs.key, inputs);
    }
  }
  json build_list = json::array();
  for (const auto& [key, inputs] : builds) {
    static std::map<std::string, Compiled> shared;
    Compiled compiled;
    if (spec.share_object && shared.contains(inputs.entries[0])) {
      compiled = shared[inputs.entries[0]];
    } else {
      compiled = shared[inputs.entries[0]] = CompileForCpu(*kernel, inputs);
    }
    build_list.push_back({{"key", key},
                          {"code_object", *blobs.Put(compiled.object)},
                          {"entries", inputs.entries},
                          {"symbols", compiled.symbols},
                          {"compiler", compiled.compiler},
                          {"cache_hit", false},
                          {"elapsed_ns", 1},
                          {"log", ""},
                          {"diagnostics", json::array()},
                          {"facts", json::object()}});
  }
  const double ratio =
      std::exp(judge::DecideConfirmation(measurement, 1, 0, judge::AcceptanceRule{}).stats.mean);
  return {
      {"format", 1},
      {"variant",
       {{"id", spec.id},
        {"status", "accepted"},
        {"job_id", "job1"},
        {"accepted_ns", 1'700'000'000'000'000'000},
        {"candidate_digest", CandidateDigest(task->digest(), spec.target, *kernel, spec.values)},
        {"values", spec.values},
        {"ratio", ratio},
        {"ratio_low", ratio * 0.999},
        {"ratio_high", ratio * 1.001},
        {"ratio_declared", ratio},
        {"ratio_tuned", 0},
        {"is_tuned_baseline", true},
        {"roofline_fraction", 0.5}}},
      {"task",
       {{"name", task->name()},
        {"digest", task->digest()},
        {"blob", *blobs.Put(PackTaskFiles(spec.task))}}},
      {"target", spec.target},
      {"device", {{"model", ProcessorModel()}}},
      {"kernel", ToJson(*kernel)},
      {"baseline", {{"kernel", ToJson(baseline)}, {"values", baseline.values}}},
      {"denominator", {{"kernel", ToJson(baseline)}, {"values", baseline.values}}},
      {"parents", json::array()},
      {"proposer", {{"name", "tuner"}, {"seed", 7}}},
      {"builds", build_list},
      {"verification", ToJson(verification)},
      {"measurement", ToJson(measurement)},
      {"environment", {{"host", "sample"}}},
      {"fettle_version", "0.1.0"}};
}

json SampleProvenance(FakeBlobs& blobs, const std::string& id, int block) {
  return SampleProvenance(blobs, id, block, kTaskYaml);
}

json SampleProvenance(FakeBlobs& blobs, const std::string& id, int block,
                      const std::string& task_yaml) {
  return MakeProvenance(
      blobs,
      {.id = id,
       .task = {{"task.yaml", task_yaml}, {"kernel.cu", kKernel}, {"reference.cc", kReference}},
       .values = {{"BLOCK", block}}});
}

BundleExtras SampleExtras(const Task& task) {
  BundleExtras extras;
  const Target cpu = *FindTarget("cpu");
  std::set<std::string> seen;
  const std::vector<BoundCase> cases = *OwnCases(task, "cpu");
  for (const BoundCase& bound_case : cases) {
    const auto inputs =
        *task.BuildInputsFor(task.baseline(), task.baseline().values, bound_case, cpu);
    if (!seen.insert(inputs.key).second) continue;
    const Compiled compiled = CompileForCpu(task.baseline(), inputs);
    extras.builds.push_back({.kernel = kBaselineId,
                             .target = "cpu",
                             .key = inputs.key,
                             .compiler = compiled.compiler,
                             .machine = ProcessorModel(),
                             .entries = inputs.entries,
                             .symbols = compiled.symbols,
                             .facts = json::object(),
                             .code_object = compiled.object});
  }
  return extras;
}

VariantProvenance Parsed(const json& document) {
  auto variant = ParseProvenance(document.dump());
  EXPECT_TRUE(variant.ok()) << variant.status();
  return variant.ok() ? *std::move(variant) : VariantProvenance();
}

const std::string& SampleKey() {
  static const std::string key = [] {
    auto made = NewSigningKey();
    return made.ok() ? *made : std::string();
  }();
  return key;
}

BundleFiles SampleBundle() {
  FakeBlobs blobs;
  const std::vector<VariantProvenance> variants = {Parsed(SampleProvenance(blobs, "v1", 128)),
                                                   Parsed(SampleProvenance(blobs, "v2", 256))};
  const auto task = ParsedTask(*UnpackTaskFiles(blobs.blobs.at(variants[0].task_blob)));
  auto files = BuildBundle(variants, blobs, SampleExtras(*task));
  EXPECT_TRUE(files.ok()) << files.status();
  if (!files.ok()) return {};
  EXPECT_TRUE(SignBundle(SampleKey(), *files).ok());
  return *std::move(files);
}

BundleFiles GuardBundle() {
  FakeBlobs blobs;
  const TaskFiles task = GuardTask();
  const std::vector<VariantProvenance> variants = {
      Parsed(MakeProvenance(blobs, {.id = "narrow",
                                    .task = task,
                                    .values = {{"BLOCK", 64}},
                                    .requirements = {"cols % 4 == 0"},
                                    .ratios = {1.5, 1.1, 1.3}})),
      Parsed(MakeProvenance(
          blobs,
          {.id = "wide", .task = task, .values = {{"BLOCK", 128}}, .ratios = {1.2, 1.6, 1.1}}))};
  auto files = BuildBundle(variants, blobs, SampleExtras(*ParsedTask(task)));
  EXPECT_TRUE(files.ok()) << files.status();
  return files.ok() ? *std::move(files) : BundleFiles();
}

BundleFiles GuardGpuBundle(const std::vector<std::string>& targets, const TaskFiles& files) {
  FakeBlobs blobs;
  std::vector<TaskProblem> problems;
  const auto task = Task::Parse(files, &problems);
  EXPECT_TRUE(task.ok());
  const std::vector<VariantProvenance> variants = {
      Parsed(MakeProvenance(blobs, {.id = "narrow",
                                    .task = files,
                                    .values = {{"BLOCK", 64}},
                                    .requirements = {"cols % 4 == 0"},
                                    .ratios = {1.5, 1.1, 1.3}}))};
  BundleExtras extras = SampleExtras(**task);
  for (const std::string& name : targets) {
    const Target target = *FindTarget(name);
    for (const char* kernel : {"narrow", kBaselineId}) {
      const TunableValues values = {{"BLOCK", std::string(kernel) == "narrow" ? 64 : 32}};
      std::set<std::string> seen;
      const std::vector<BoundCase> cases = *OwnCases(**task, name);
      for (const BoundCase& bound_case : cases) {
        const auto inputs =
            *(*task)->BuildInputsFor((*task)->baseline(), values, bound_case, target);
        if (!seen.insert(inputs.key).second) continue;
        extras.builds.push_back(
            {.kernel = kernel,
             .target = name,
             .key = inputs.key,
             .compiler = "none",
             .machine = "",
             .entries = inputs.entries,
             .symbols = {fmt::format(
                 "sym_{}_{}", kernel,
                 inputs.entries[0].find("double") == std::string::npos ? "f32" : "f64")},
             .facts = nlohmann::json::object(),
             .code_object = fmt::format("pretended object {} {} {}", name, kernel, inputs.key)});
      }
    }
  }
  auto bundle = BuildBundle(variants, blobs, extras);
  EXPECT_TRUE(bundle.ok()) << bundle.status();
  return bundle.ok() ? *std::move(bundle) : BundleFiles();
}

}  // namespace fettle
