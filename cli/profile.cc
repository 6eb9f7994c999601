// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <fmt/format.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/facts_text.h"
#include "cli/format.h"
#include "cli/kernel_flags.h"
#include "cli/local.h"
#include "cli/report.h"
#include "cli/submit.h"
#include "cli/task_folder.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "exporter/verify.h"
#include "proto/wire_json.h"

namespace fettle {
namespace {

using nlohmann::json;

// What bounds a kernel: code-object facts, achieved rates against the device's ceilings and, on
// request, hardware counters. The kernel is verified first; nothing of it is stored.
class ProfileCommand final : public Subcommand {
 public:
  std::string name() const override { return "profile"; }
  std::string summary() const override {
    return "what bounds a variant or kernel: facts, rates, hardware counters";
  }
  std::string details() const override {
    return "WHAT is a variant's id (or a prefix of it), a bundle's folder, or a task's folder "
           "with\n"
           "--kernel and --set, or --candidate and --job. It runs on this machine.\n"
           "Exit code: 0 shown, 1 the kernel is not right; counters that cannot be had say why.";
  }
  void Declare(FlagSet& flags) override {
    flags.Positional("WHAT", &what_, "variant, bundle folder or task folder").completes =
        Completes::kFolder;
    flags.Flag("--counters", "", &counters_,
               "run it once more under ncu or rocprofv3 (docs/counters.md)");
    flags.Flag("--duty", "", &duty_,
               "run it at several duty ratios: power, clock and time of a call (docs/counters.md)");
    flags.Flag("--duty-seconds", "N", &duty_seconds_, "at each ratio (default 2)");
    kernel_.Declare(flags);
    flags.Flag("--candidate", "DIGEST", &candidate_, "with a task: this candidate of --job");
    flags.Flag("--job", "JOB", &job_, "job of the candidate");
    flags.Flag("--case", "LABEL", &case_, "only this case, as timed/0");
    flags.Flag("--target", "T", &target_, "with a task: architecture (default auto)");
    flags.Flag("--json", "", &json_, "print JSON");
    local_.Declare(flags);
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    if (candidate_.empty() != job_.empty()) {
      return absl::InvalidArgumentError("--candidate and --job name one candidate together");
    }
    if (!(duty_seconds_ >= 0.1 && duty_seconds_ <= 60)) {
      return absl::InvalidArgumentError("--duty-seconds: 0.1 to 60");
    }
    FETTLE_ASSIGN_OR_RETURN(LocalLab lab, LocalLab::Open(local_));
    FETTLE_ASSIGN_OR_RETURN(WorkUnit unit, MakeUnit(lab));
    if (duty_) unit.duty_span_s = duty_seconds_;
    unit.kind = UnitKind::kEvaluate;
    unit.screen = false;
    unit.counters = counters_;
    unit.only_case = case_;
    FETTLE_ASSIGN_OR_RETURN(const UnitResult result, lab.Run(context, std::move(unit)));
    return Report(context.terminal, result);
  }

 private:
  absl::StatusOr<WorkUnit> MakeUnit(LocalLab& lab) {
    namespace fs = std::filesystem;
    std::error_code error;
    if (fs::exists(fs::path(what_) / "task.yaml", error)) return UnitOfTask(lab);
    BundleFiles files;
    if (fs::is_directory(what_, error)) {
      FETTLE_ASSIGN_OR_RETURN(files, ReadBundle(what_));
    } else {
      FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
      FETTLE_ASSIGN_OR_RETURN(const v1::Variant variant, client->GetVariant(what_));
      v1::ExportBundleRequest request;
      request.add_variant_ids(variant.id());
      FETTLE_ASSIGN_OR_RETURN(const std::string bytes, client->ExportBundle(request));
      FETTLE_ASSIGN_OR_RETURN(files, UnpackBundle(bytes));
    }
    FETTLE_ASSIGN_OR_RETURN(const BundleReport report,
                            RequireWholeBundle(files, "profile " + what_));
    if (report.variants.empty()) {
      return absl::FailedPreconditionError(fmt::format("profile {}: it has no variant", what_));
    }
    FETTLE_ASSIGN_OR_RETURN(Rerun rerun,
                            MakeRerun(report.variants.front(), files, DrawSeed(), DrawSeed()));
    FETTLE_RETURN_IF_ERROR(lab.blobs->Put(rerun.task_blob_bytes).status());
    return std::move(rerun.unit);
  }

  absl::StatusOr<WorkUnit> UnitOfTask(LocalLab& lab) {
    FETTLE_ASSIGN_OR_RETURN(const TaskFiles files, ReadTaskFolder(what_));
    std::vector<TaskProblem> problems;
    const auto task = Task::Parse(files, &problems);
    if (!task.ok()) {
      return problems.empty() ? task.status()
                              : absl::FailedPreconditionError(FormatProblems(problems));
    }
    FETTLE_ASSIGN_OR_RETURN(json block, kernel_.Block(**task));
    if (!candidate_.empty()) {
      FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
      FETTLE_ASSIGN_OR_RETURN(const v1::Candidate candidate,
                              client->GetCandidate(job_, candidate_));
      block = ParseDocument(candidate.kernel_json());
      if (block.is_object()) block["values"] = ParseDocument(candidate.values_json());
    }
    auto kernel = (*task)->ParseKernelSpec(block, &problems);
    if (!kernel.ok()) {
      return problems.empty() ? kernel.status()
                              : absl::FailedPreconditionError(FormatProblems(problems));
    }
    FETTLE_ASSIGN_OR_RETURN(
        WorkUnit unit,
        BaselineUnit(UnitKind::kEvaluate, **task, ChooseTarget(target_, *lab.runner), *lab.blobs));
    unit.candidate.kernel = *kernel;
    unit.candidate.values = kernel->values;
    unit.candidate.digest =
        CandidateDigest((*task)->digest(), unit.target, *kernel, kernel->values);
    return unit;
  }

  ExitCode Report(Terminal& terminal, const UnitResult& result) const {
    const bool right = result.verification && result.verification->passed;
    const json document = ToJson(result);
    if (json_) {
      terminal.Print(json{
          {"right", right},
          {"verdict", MemberOf(document, "verdict")},
          {"builds", MemberOf(document, "builds")},
          {"measurement", MemberOf(document, "measurement")},
          {"ceilings", MemberOf(result.environment, "ceilings")},
          {"counters", result.counters},
          {"duty",
           result.duty}}.dump(2, ' ', false, kReplaceInvalid));
      return right ? ExitCode::kOk : ExitCode::kNo;
    }
    const int width = terminal.width();
    for (const BuildRecord& build : result.builds) {
      terminal.Raw(DiagnosticsText(build.diagnostics));
      if (build.facts.is_object() && build.facts.contains("kernels")) {
        terminal.Raw(FactsText(build.facts, width));
      }
    }
    terminal.Raw(MeasurementTable(MemberOf(document, "measurement"), width,
                                  MemberOf(document, "environment")));
    terminal.Raw(CountersText(result.counters, width));
    terminal.Raw(DutyText(result.duty, width));
    if (result.verdict) terminal.PrintFolded(VerdictText(MemberOf(document, "verdict")));
    return right ? ExitCode::kOk : ExitCode::kNo;
  }

  std::string what_, case_, candidate_, job_;
  std::string target_ = "auto";
  KernelFlags kernel_;
  bool counters_ = false, duty_ = false;
  double duty_seconds_ = 2;
  bool json_ = false;
  LocalFlags local_;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeProfileCommand() { return std::make_unique<ProfileCommand>(); }

}  // namespace fettle
