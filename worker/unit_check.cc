// SPDX-License-Identifier: Apache-2.0

// Check mode: an instrumented build for the cpu runs the small cases and finds races, reads of what
// was never written and accesses outside buffers. Of a kernel for a GPU it runs wherever the cpu
// compiler takes the source.

#include <algorithm>
#include <future>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "device/tensor_layout.h"
#include "worker/unit_job.h"

namespace fettle {
namespace {

using Going = absl::StatusOr<bool>;

// The check build is slow; cases beyond this many elements are left to the fast build.
constexpr std::int64_t kCheckModeElements = 1 << 20;

std::string LabelOf(int lanes) {
  return fmt::format("{} {}", lanes == 64 ? "wave" : "warp", lanes);
}

// "kernel.cu:12: ...", of the first error.
std::string FirstError(const BuildRecord& rejected) {
  for (const auto& diagnostic : rejected.diagnostics) {
    if (diagnostic.value("severity", std::string()) != "error") continue;
    return fmt::format("{}:{}: {}", diagnostic.value("file", std::string()),
                       diagnostic.value("line", 0), diagnostic.value("text", std::string()));
  }
  return "no diagnostic";
}

}  // namespace

std::vector<int> UnitJob::CheckModeWidths() const {
  const int lanes = candidate_.kernel.lanes;
  if (lanes != 0) return {lanes};
  return {32, 64};
}

std::vector<BoundCase> UnitJob::CheckModeCases() const {
  std::vector<BoundCase> small;
  for (const BoundCase& one : cases_) {
    const bool checked = one.set == CaseSet::kChecked && supported_.at(one.label);
    if (checked && ElementsOf(one) <= kCheckModeElements) small.push_back(one);
  }
  return small;
}

BuildContext UnitJob::CheckContext() {
  BuildContext context = Context();
  if (on_cpu() || services_.check_lane == nullptr) return context;
  context.target = services_.check_lane->device().target;
  context.compiler = services_.check_compiler;
  return context;
}

absl::Status UnitJob::BuildChecksAhead() {
  const std::vector<BoundCase> small = CheckModeCases();
  if (small.empty() || (!on_cpu() && services_.check_lane == nullptr)) return absl::OkStatus();
  std::vector<std::future<absl::StatusOr<BuiltKernel>>> builds;
  for (const int width : CheckModeWidths()) {
    builds.push_back(std::async(std::launch::async, [this, &small, width] {
      return BuildKernel(CheckContext(), candidate_, small, CompileMode::kCheck, width);
    }));
  }
  absl::Status status;
  for (auto& build : builds) {
    const absl::Status built = build.get().status();
    // What a GPU's kernel asks for may not exist on the cpu; CheckOnCpu tells.
    if (on_cpu() || !absl::IsInvalidArgument(built)) status.Update(built);
  }
  return status;
}

Going UnitJob::RunCheckMode() {
  if (!on_cpu()) {
    if (checked_on_cpu_) {
      result_.verification->check_mode = checked_on_cpu_->check_mode;
      auto& warnings = result_.verification->warnings;
      warnings.insert(warnings.end(), checked_on_cpu_->warnings.begin(),
                      checked_on_cpu_->warnings.end());
    } else {
      result_.verification->check_mode = "not_run: on a GPU only confirmations run it";
    }
    return true;
  }
  for (const int width : CheckModeWidths()) {
    FETTLE_ASSIGN_OR_RETURN(const bool clean, CheckModeAt(width));
    if (!clean) return false;
  }
  return true;
}

Going UnitJob::CheckModeAt(int lanes) {
  Progress(fmt::format("checking at warp width {}", lanes));
  const std::vector<BoundCase> small = CheckModeCases();
  if (small.empty()) {
    result_.verification->check_mode = "not_run: no checked case is small enough";
    return true;
  }
  FETTLE_ASSIGN_OR_RETURN(BuiltKernel built,
                          BuildKernel(Context(), candidate_, small, CompileMode::kCheck, lanes));
  result_.compile_ns += built.compile_ns;
  if (built.rejected) {
    return Decide(Verdict::kCompileError, Stage::kCompile, "check_build_rejected", nullptr,
                  fmt::format("the check build at warp width {} does not compile", lanes),
                  {{"diagnostics", built.rejected->diagnostics}, {"log", built.rejected->log}});
  }
  Going going = true;
  FETTLE_ASSIGN_OR_RETURN(
      const std::vector<CaseUnderTest> cases,
      CasesUnderTest(Context(), built, *runner_, small, /*with_baseline=*/false, &going));
  if (!going.ok() || !*going) return going;
  Verifier verifier(*runner_, *reference_);
  FETTLE_RETURN_IF_ERROR(
      verifier.CheckMode(cases, LabelOf(lanes), MakeVerifyOptions(), &*result_.verification));
  if (!result_.verification->passed) {
    result_.verdict = result_.verification->failure;
    return false;
  }
  return true;
}

// Only what check mode finds decides. That a kernel for a GPU does not compile, launch or end on a
// cpu says nothing about it, and is recorded as not run.
absl::StatusOr<std::string> UnitJob::CheckOnCpuAt(int lanes, const std::vector<BoundCase>& small,
                                                  RunnerClient& runner, Reference& reference,
                                                  VerificationReport* report) {
  auto built = BuildKernel(CheckContext(), candidate_, small, CompileMode::kCheck, lanes);
  if (absl::IsInvalidArgument(built.status())) return std::string(built.status().message());
  FETTLE_RETURN_IF_ERROR(built.status());
  result_.compile_ns += built->compile_ns;
  if (built->rejected) {
    return "the cpu compiler does not take this source: " + FirstError(*built->rejected);
  }
  Going going = true;
  FETTLE_ASSIGN_OR_RETURN(
      const std::vector<CaseUnderTest> cases,
      CasesUnderTest(CheckContext(), *built, runner, small, /*with_baseline=*/false, &going));
  if (result_.verdict) {
    const std::string why = result_.verdict->message;
    result_.verdict.reset();
    return why;
  }
  FETTLE_RETURN_IF_ERROR(going.status());
  VerificationReport seen;
  seen.passed = true;
  Verifier verifier(runner, reference);
  const absl::Status ran = verifier.CheckMode(cases, LabelOf(lanes), MakeVerifyOptions(), &seen);
  if (absl::IsUnimplemented(ran) || absl::IsResourceExhausted(ran) || absl::IsNotFound(ran)) {
    return std::string(ran.message());
  }
  FETTLE_RETURN_IF_ERROR(ran);
  if (!seen.passed && seen.failure.verdict != Verdict::kIncorrect) return seen.failure.message;
  report->warnings.insert(report->warnings.end(), seen.warnings.begin(), seen.warnings.end());
  report->passed = seen.passed;
  report->failure = seen.failure;
  return std::string();
}

Going UnitJob::CheckOnCpu() {
  VerificationReport report;
  report.passed = true;
  const std::vector<BoundCase> small = CheckModeCases();
  std::string skipped;
  if (services_.check_lane == nullptr) skipped = "this worker has no cpu compiler";
  if (skipped.empty() && small.empty()) skipped = "no checked case is small enough";
  if (skipped.empty()) {
    Lane& lane = *services_.check_lane;
    Progress("waiting for the cpu to check on");
    FETTLE_ASSIGN_OR_RETURN(const Lane::Hold hold, lane.Enter(LaneUse::kAlone, services_.stop));
    for (const int width : CheckModeWidths()) {
      Progress(fmt::format("checking on the cpu at warp width {}", width));
      FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<RunnerClient> runner,
                              lane.Take(LaneUse::kAlone, /*fresh=*/true, services_.stop));
      absl::StatusOr<std::string> why =
          CheckOnCpuAt(width, small, *runner, *kept_->reference, &report);
      FETTLE_RETURN_IF_ERROR(why.status());
      if (!why->empty()) skipped = fmt::format("at {}: {}", LabelOf(width), *why);
      if (!skipped.empty() || !report.passed) break;
    }
  }
  report.check_mode = !report.passed    ? "failed"
                      : skipped.empty() ? "passed"
                                        : "not_run: " + skipped;
  if (!report.passed) {
    report.seeds = {unit_.seed};
    result_.verdict = report.failure;
    result_.verification = std::move(report);
    return false;
  }
  checked_on_cpu_ = std::move(report);
  return true;
}

}  // namespace fettle
