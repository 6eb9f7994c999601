// SPDX-License-Identifier: Apache-2.0
#include "cli/aa.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "cli/format.h"
#include "cli/paths.h"
#include "core/status_macros.h"
#include "exporter/speedup.h"
#include "worker/device_reports.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr std::size_t kRatiosKept = 1000;
constexpr double kCapSeconds = 5;

constexpr char kTask[] = R"yaml(format: 1
name: aa
summary: A kernel that is compared with itself.
license: Apache-2.0
dims:
  n: {min: 1, max: 33554432}
args:
  - x: {role: in, dtype: f32, shape: [n], fill: {normal: [0, 1]}}
  - y: {role: out, dtype: f32, shape: [n]}
  - n: {role: scalar, dtype: i32, value: n}
baseline:
  source: kernel.cu
  launches:
    - {kernel: scale, grid: ["ceil_div(n, 256)"], block: [256], args: [x, y, n]}
reference: {source: reference.cc, function: scale_ref}
cases:
  timed: [{for: cpu, n: 65536}, {for: gpu, n: 4194304}, {for: gpu, n: 33554432}]
  checked: [{n: 257}]
  held_out: 1
tolerance: {y: {exact: values}}
work: {bytes: "8*n"}
contract: {deterministic: true}
)yaml";

constexpr char kKernel[] = R"(__global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
)";

constexpr char kReference[] = R"(#include "fettle_reference.h"

extern "C" void scale_ref(fettle_ref* ref) {
  const fettle_tensor& x = fettle_input(ref, "x");
  fettle_result& y = fettle_output(ref, "y");
  for (int64_t i = 0; i < fettle_row_count(y); ++i) y.values[i] = 2 * x.values[fettle_row(y, i)];
}
)";

double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

std::vector<double> NumbersOf(const json& kept, const char* key) {
  std::vector<double> numbers;
  for (const json& one : MemberOf(kept, key)) {
    if (one.is_number()) numbers.push_back(one.get<double>());
  }
  return numbers;
}

// One more run: what was counted, and the figures of its measurements.
struct Counted {
  int candidates = 0, confirmations = 0, false_wins = 0;
  std::vector<double> ratios, spreads;
};

json Add(json kept, const DeviceInfo& device, const Counted& counted) {
  const auto sum = [&kept](const char* key, int more) {
    return static_cast<std::int64_t>(NumberOf(kept, key)) + more;
  };
  std::vector<double> ratios = NumbersOf(kept, "ratios"), spreads = NumbersOf(kept, "spreads");
  ratios.insert(ratios.end(), counted.ratios.begin(), counted.ratios.end());
  spreads.insert(spreads.end(), counted.spreads.begin(), counted.spreads.end());
  const auto keep_last = [](std::vector<double>& list) {
    if (list.size() > kRatiosKept) {
      list.erase(list.begin(), list.end() - static_cast<std::ptrdiff_t>(kRatiosKept));
    }
  };
  keep_last(ratios);
  keep_last(spreads);
  return {{"device", device.model},
          {"driver", device.driver},
          {"candidates", sum("candidates", counted.candidates)},
          {"confirmations", sum("confirmations", counted.confirmations)},
          {"false_wins", sum("false_wins", counted.false_wins)},
          {"ratio_low", Quantile(ratios, 0.025)},
          {"ratio_high", Quantile(ratios, 0.975)},
          {"spread_median", Quantile(spreads, 0.5)},
          {"spread_p95", Quantile(spreads, 0.95)},
          {"ratios", ratios},
          {"spreads", spreads}};
}

// The measurement of one more candidate; an error where none came about.
absl::StatusOr<Measurement> MeasureOne(Context& context, LocalLab& lab, WorkUnit unit) {
  FETTLE_ASSIGN_OR_RETURN(const UnitResult result, lab.Run(context, std::move(unit)));
  if (result.measurement && !result.verdict) return *result.measurement;
  return absl::UnavailableError(
      fmt::format("measure a kernel against itself: {}",
                  result.verdict ? result.verdict->message : "the device gave no measurement"));
}

// Counts one candidate. An error where it could not be measured; nothing is counted then.
absl::Status CountOne(Context& context, LocalLab& lab, const Task& task, const std::string& target,
                      Counted& counted) {
  FETTLE_ASSIGN_OR_RETURN(WorkUnit unit,
                          BaselineUnit(UnitKind::kEvaluate, task, target, *lab.blobs));
  unit.screen = false;
  unit.time_cap_s = kCapSeconds;
  FETTLE_ASSIGN_OR_RETURN(const Measurement measured, MeasureOne(context, lab, unit));
  const Speedup speedup = SummarizeSpeedup(measured);
  // What a job would confirm, and more: everything that looks faster at all.
  if (speedup.low > 1) {
    FETTLE_ASSIGN_OR_RETURN(unit, BaselineUnit(UnitKind::kConfirm, task, target, *lab.blobs));
    unit.time_cap_s = kCapSeconds;
    FETTLE_ASSIGN_OR_RETURN(const Measurement confirmed, MeasureOne(context, lab, unit));
    ++counted.confirmations;
    if (SummarizeSpeedup(confirmed).verdict.verdict == Verdict::kWin) ++counted.false_wins;
  }
  ++counted.candidates;
  counted.ratios.push_back(speedup.ratio);
  for (const CaseMeasurement& one : measured.cases) counted.spreads.push_back(one.aa_spread);
  return absl::OkStatus();
}

absl::Status Keep(const json& figures, const std::filesystem::path& path) {
  const std::filesystem::path part = path.string() + ".part";
  std::ofstream out(part);
  out << figures.dump(1) << "\n";
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(part, path, error);
  if (!out || error) return absl::UnavailableError(fmt::format("write {}", path.string()));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<json> MeasureAa(Context& context, LocalLab& lab, const AaOptions& options) {
  std::vector<TaskProblem> problems;
  const auto task = Task::Parse(
      {{"task.yaml", kTask}, {"kernel.cu", kKernel}, {"reference.cc", kReference}}, &problems);
  if (!task.ok()) return absl::InternalError(FormatProblems(problems));
  const std::string target = ChooseTarget(options.target, *lab.runner);
  const DeviceInfo* device = nullptr;
  const std::vector<DeviceInfo> devices = lab.runner->devices();
  for (const DeviceInfo& one : devices) {
    if (one.target.name == target && device == nullptr) device = &one;
  }
  if (device == nullptr) {
    return absl::UnavailableError(fmt::format("no device here runs target {}", target));
  }
  const std::filesystem::path path = AaFile(options.folder, *device);
  FETTLE_RETURN_IF_ERROR(MakePrivateFolder(options.folder + "/aa"));
  // Kept after each candidate, so that a run that ends early has not been for nothing.
  json kept = KeptAa(path);
  for (std::int64_t i = 0; i < options.candidates; ++i) {
    if (context.stop.stop_requested()) {
      return absl::CancelledError(fmt::format(
          "the A/A run was cancelled; {} of {} candidates are kept", i, options.candidates));
    }
    context.terminal.Status(fmt::format("A/A {} of {}", i + 1, options.candidates));
    Counted counted;
    FETTLE_RETURN_IF_ERROR(CountOne(context, lab, **task, target, counted));
    kept = Add(kept, *device, counted);
    FETTLE_RETURN_IF_ERROR(Keep(kept, path));
  }
  context.terminal.Status("");
  return kept;
}

std::string AaText(const json& kept) {
  return fmt::format(
      "A/A on {}: {} false wins among {} candidates ({} looked faster and were confirmed); "
      "95 % of ratios in {:.4f} to {:.4f}",
      TextOf(kept, "device"), NumberOf(kept, "false_wins"), NumberOf(kept, "candidates"),
      NumberOf(kept, "confirmations"), NumberOf(kept, "ratio_low"), NumberOf(kept, "ratio_high"));
}

}  // namespace fettle
