// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/kernel_flags.h"
#include "cli/local.h"
#include "cli/report.h"
#include "cli/submit.h"
#include "cli/task_folder.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "exporter/speedup.h"
#include "proto/wire_json.h"

namespace fettle {
namespace {

using nlohmann::json;

class TryCommand final : public Subcommand {
 public:
  std::string name() const override { return "try"; }
  std::string summary() const override { return "one verdict on a kernel, counted in no job"; }
  std::string details() const override {
    return "A source file is run with the baseline's launch plan; a .json file is a whole "
           "proposal\n"
           "(source, tunables, values, launches, workspace, requires).\n"
           "Exit code: 0 right and faster, 1 not.";
  }
  void Declare(FlagSet& flags) override {
    flags.Positional("TASK", &task_, "task folder").completes = Completes::kFolder;
    kernel_.Declare(flags);
    flags.Flag("--case", "LABEL", &case_,
               "only this case, as timed/0 or checked/3 (a bare N: "
               "checked/N)");
    flags.Flag("--target", "T", &target_, "architecture (default auto: the best device found)");
    flags.Flag("--verify-only", "", &verify_only_, "do not measure");
    flags.Flag("--counters", "", &counters_,
               "GPU targets: also run it once under ncu or rocprofv3 (docs/counters.md)");
    flags.Flag("--json", "", &json_, "print JSON");
    local_.Declare(flags);
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const TaskFiles files, ReadTaskFolder(task_));
    std::vector<TaskProblem> problems;
    const auto task = Task::Parse(files, &problems);
    if (!task.ok() && problems.empty()) return task.status();
    if (!task.ok()) return ReportProblems(context.terminal, task_, problems);
    FETTLE_ASSIGN_OR_RETURN(const json block, kernel_.Block(**task));
    auto kernel = (*task)->ParseKernelSpec(block, &problems);
    if (!kernel.ok()) {
      if (problems.empty()) return kernel.status();
      return ReportProblems(context.terminal,
                            kernel_.kernel.empty() ? "the kernel" : kernel_.kernel, problems);
    }
    if (!case_.empty() && case_.find('/') == std::string::npos) case_ = "checked/" + case_;
    FETTLE_ASSIGN_OR_RETURN(const json result, Evaluate(context, **task, block, *kernel));
    return Report(context, result);
  }

 private:
  // The UnitResult, from here or from a server's worker.
  absl::StatusOr<json> Evaluate(Context& context, const Task& task, const json& block,
                                const KernelSpec& kernel) {
    if (connection_.given()) {
      FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
      v1::TryKernelRequest request;
      request.set_task_blob(PackTaskFiles(task.files()));
      request.set_target(target_);
      request.set_kernel_json(block.dump(-1, ' ', false, kReplaceInvalid));
      request.set_only_case(case_);
      request.set_measure(!verify_only_);
      request.set_counters(counters_);
      FETTLE_ASSIGN_OR_RETURN(const std::string result, client->TryKernel(request));
      return ParseDocument(result);
    }
    FETTLE_ASSIGN_OR_RETURN(LocalLab lab, LocalLab::Open(local_));
    FETTLE_ASSIGN_OR_RETURN(
        WorkUnit unit,
        BaselineUnit(UnitKind::kEvaluate, task, ChooseTarget(target_, *lab.runner), *lab.blobs));
    unit.candidate.kernel = kernel;
    unit.candidate.values = kernel.values;
    unit.candidate.digest = CandidateDigest(task.digest(), unit.target, kernel, kernel.values);
    unit.screen = false;
    unit.measure = !verify_only_;
    unit.counters = counters_;
    unit.only_case = case_;
    FETTLE_ASSIGN_OR_RETURN(const UnitResult result, lab.Run(context, std::move(unit)));
    return ToJson(result);
  }

  absl::StatusOr<ExitCode> Report(Context& context, const json& document) {
    FETTLE_ASSIGN_OR_RETURN(const UnitResult result, UnitResultFromJson(document));
    VerdictRecord verdict;
    std::string headline;
    if (result.verdict.has_value()) {
      verdict = *result.verdict;
    } else if (result.measurement.has_value()) {
      const Speedup speedup = SummarizeSpeedup(*result.measurement);
      verdict = speedup.verdict;
      headline = fmt::format("right; {} over the baseline",
                             FormatInterval(speedup.ratio, speedup.low, speedup.high));
    } else {
      verdict.verdict = Verdict::kNoWin;
      headline = "right; not measured";
    }
    const bool right = !result.verdict.has_value();
    const bool yes = right && (!result.measurement.has_value() || verdict.verdict == Verdict::kWin);
    if (json_) {
      json out = document;
      out["summary"] = {{"right", right}, {"verdict", ToJson(verdict)}};
      context.terminal.Print(out.dump(2, ' ', false, kReplaceInvalid));
      return yes ? ExitCode::kOk : ExitCode::kNo;
    }
    const int width = context.terminal.width();
    for (const json& build : MemberOf(document, "builds")) {
      context.terminal.Raw(DiagnosticsText(MemberOf(build, "diagnostics")));
    }
    context.terminal.Raw(VerificationTable(MemberOf(document, "verification"), width));
    context.terminal.Raw(MeasurementTable(MemberOf(document, "measurement"), width,
                                          MemberOf(document, "environment")));
    context.terminal.Raw(CountersText(MemberOf(document, "counters"), width));
    if (!headline.empty()) context.terminal.Print(headline);
    if (!right || (result.measurement.has_value() && !yes)) {
      context.terminal.PrintFolded(VerdictText(ToJson(verdict)));
    } else if (result.measurement.has_value()) {
      context.terminal.Print("would be a contender; only a job's confirmation makes it a win");
    }
    return yes ? ExitCode::kOk : ExitCode::kNo;
  }

  std::string task_, case_;
  KernelFlags kernel_;
  std::string target_ = "auto";
  bool verify_only_ = false;
  bool counters_ = false;
  bool json_ = false;
  LocalFlags local_;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeTryCommand() { return std::make_unique<TryCommand>(); }

}  // namespace fettle
