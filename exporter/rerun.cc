// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/digest.h"
#include "core/status_macros.h"
#include "exporter/speedup.h"
#include "exporter/verify.h"

namespace fettle {
namespace {

using nlohmann::json;

absl::StatusOr<KernelUnderTest> ReadKernel(const Task& task, const std::string& target,
                                           const json& kernel, const json& values) {
  KernelUnderTest result;
  std::vector<TaskProblem> problems;
  FETTLE_ASSIGN_OR_RETURN(result.kernel, task.ParseKernelSpec(kernel, &problems));
  for (const auto& [name, value] : values.items()) {
    if (!value.is_number_integer()) {
      return absl::InvalidArgumentError(
          fmt::format("rerun: the value of {} is not an integer", name));
    }
    result.values[name] = value.get<std::int64_t>();
  }
  result.digest = CandidateDigest(task.digest(), target, result.kernel, result.values);
  return result;
}

void CompareObjects(const VariantProvenance& variant, const UnitResult& result,
                    RerunOutcome& outcome) {
  for (const ProvenanceBuild& build : variant.builds) {
    for (const BuildRecord& rebuilt : result.builds) {
      if (rebuilt.key != build.key || rebuilt.code_object.empty()) continue;
      if (build.target != outcome.target) continue;
      ++(rebuilt.code_object == build.code_object ? outcome.objects_equal
                                                  : outcome.objects_different);
      break;
    }
  }
}

std::string ReasonOf(const UnitResult& result, RerunOutcome& outcome) {
  if (result.verdict.has_value() && result.verdict->reason_code == "emulated" &&
      result.verification.has_value() && result.verification->passed) {
    outcome.emulated = true;
    return "";
  }
  if (result.verdict.has_value()) {
    outcome.undecided = LeavesOpen(*result.verdict);
    return fmt::format("{} at {}: {}", std::string(VerdictName(result.verdict->verdict)),
                       std::string(StageName(result.verdict->stage)), result.verdict->message);
  }
  if (!result.verification.has_value() || !result.verification->passed) {
    return "verification did not pass";
  }
  if (!result.measurement.has_value()) return "nothing was measured";
  const Speedup speedup = SummarizeSpeedup(*result.measurement);
  outcome.ratio = speedup.ratio;
  outcome.ratio_low = speedup.low;
  outcome.ratio_high = speedup.high;
  if (speedup.verdict.verdict == Verdict::kWin) return "";
  outcome.undecided = LeavesOpen(speedup.verdict);
  return fmt::format("{}: {}", std::string(VerdictName(speedup.verdict.verdict)),
                     speedup.verdict.message);
}

}  // namespace

absl::StatusOr<Rerun> MakeRerun(const VariantProvenance& variant, const BundleFiles& files,
                                std::uint64_t seed, std::uint64_t held_out_seed) {
  return MakeRerun(variant, files, variant.target, seed, held_out_seed);
}

absl::StatusOr<Rerun> MakeRerun(const VariantProvenance& variant, const BundleFiles& files,
                                const std::string& target, std::uint64_t seed,
                                std::uint64_t held_out_seed) {
  TaskFiles task_files;
  for (const auto& [path, bytes] : files) {
    if (path.starts_with("task/")) task_files.emplace(path.substr(5), bytes);
  }
  Rerun rerun;
  rerun.task_blob_bytes = PackTaskFiles(task_files);
  std::vector<TaskProblem> problems;
  FETTLE_ASSIGN_OR_RETURN(const auto task, Task::Parse(std::move(task_files), &problems));
  WorkUnit& unit = rerun.unit;
  unit.id = "rerun-" + variant.id;
  unit.kind = UnitKind::kRerun;
  unit.task_digest = task->digest();
  unit.task_blob = Sha256Hex(rerun.task_blob_bytes);
  unit.target = target;
  FETTLE_ASSIGN_OR_RETURN(unit.candidate,
                          ReadKernel(*task, target, variant.kernel, variant.values));
  FETTLE_ASSIGN_OR_RETURN(unit.denominator, ReadKernel(*task, target, variant.denominator_kernel,
                                                       variant.denominator_values));
  unit.screen = false;
  unit.seed = seed;
  unit.held_out_seed = held_out_seed;
  unit.deadline_ms = 15 * 60 * 1000;
  return rerun;
}

RerunOutcome JudgeRerun(const VariantProvenance& variant, const std::string& target,
                        const UnitResult& result) {
  RerunOutcome outcome;
  outcome.target = target;
  outcome.reason = ReasonOf(result, outcome);
  outcome.passed = outcome.reason.empty();
  CompareObjects(variant, result, outcome);
  outcome.evidence = {{"format", 1},
                      {"variant", variant.id},
                      {"target", target},
                      {"status", !outcome.passed    ? "failed"
                                 : outcome.emulated ? "emulated"
                                                    : "run"},
                      {"passed", outcome.passed},
                      {"reason", outcome.reason},
                      {"ratio", outcome.ratio},
                      {"ratio_low", outcome.ratio_low},
                      {"ratio_high", outcome.ratio_high},
                      {"objects_equal", outcome.objects_equal},
                      {"objects_different", outcome.objects_different},
                      {"result", ToJson(result)}};
  return outcome;
}

}  // namespace fettle
