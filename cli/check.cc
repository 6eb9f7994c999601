// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/local.h"
#include "cli/report.h"
#include "cli/submit.h"
#include "cli/task_folder.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "proto/wire_json.h"

namespace fettle {
namespace {

using nlohmann::json;

json ProblemsJson(const std::vector<TaskProblem>& problems) {
  json list = json::array();
  for (const TaskProblem& problem : problems) {
    list.push_back({{"file", problem.file},
                    {"line", problem.line},
                    {"column", problem.column},
                    {"field", problem.field},
                    {"message", problem.message}});
  }
  return list;
}

class CheckCommand final : public Subcommand {
 public:
  std::string name() const override { return "check"; }
  std::string summary() const override { return "lint a task and mutation-test its checker"; }
  std::string details() const override {
    return "Names every mistake as file:line:column. Then known-bad outputs are tried on the "
           "task's\n"
           "checker, each of which must be rejected, and the baseline must pass.\n"
           "Exit code: 0 the task is sound, 1 it is not.";
  }
  void Declare(FlagSet& flags) override {
    flags.Positional("TASK", &task_, "task folder").completes = Completes::kFolder;
    flags.Flag("--target", "T", &target_, "architecture to check on (default cpu)");
    flags.Flag("--lint-only", "", &lint_only_, "run nothing");
    flags.Flag("--json", "", &json_, "print JSON");
    local_.Declare(flags);
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const TaskFiles files, ReadTaskFolder(task_));
    std::vector<TaskProblem> problems;
    const auto task = Task::Parse(files, &problems);
    if (!task.ok() && problems.empty()) return task.status();
    if (!task.ok()) {
      if (!json_) return ReportProblems(context.terminal, task_, problems);
      context.terminal.Print(json{{"passed", false}, {"problems", ProblemsJson(problems)}}.dump(
          2, ' ', false, kReplaceInvalid));
      return ExitCode::kNo;
    }
    if (lint_only_) {
      context.terminal.Print(json_ ? json{{"passed", true}, {"problems", json::array()}}.dump(
                                         2, ' ', false, kReplaceInvalid)
                                   : fmt::format("{}: no mistakes", (*task)->name()));
      return ExitCode::kOk;
    }
    FETTLE_ASSIGN_OR_RETURN(const json result, Register(context, **task));
    return Report(context, **task, result);
  }

 private:
  // The UnitResult of the registration, here or on a server's worker.
  absl::StatusOr<json> Register(Context& context, const Task& task) {
    if (connection_.given()) {
      FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
      v1::CheckTaskRequest request;
      request.set_task_blob(PackTaskFiles(task.files()));
      request.set_target(target_);
      FETTLE_ASSIGN_OR_RETURN(const v1::CheckTaskResponse response, client->CheckTask(request));
      return ParseDocument(response.report_json());
    }
    FETTLE_ASSIGN_OR_RETURN(LocalLab lab, LocalLab::Open(local_));
    FETTLE_ASSIGN_OR_RETURN(
        WorkUnit unit,
        BaselineUnit(UnitKind::kRegister, task, ChooseTarget(target_, *lab.runner), *lab.blobs));
    FETTLE_ASSIGN_OR_RETURN(const UnitResult result, lab.Run(context, std::move(unit)));
    return ToJson(result);
  }

  absl::StatusOr<ExitCode> Report(Context& context, const Task& task, const json& result) {
    const json& verdict = MemberOf(result, "verdict");
    const bool passed = verdict.is_null();
    const json& registration = MemberOf(result, "registration");
    if (json_) {
      context.terminal.Print(json{{"passed", passed},
                                  {"problems", json::array()},
                                  {"task_digest", task.digest()},
                                  {"verdict", verdict},
                                  {"registration", registration},
                                  {"verification", MemberOf(result, "verification")}}
                                 .dump(2, ' ', false, kReplaceInvalid));
      return passed ? ExitCode::kOk : ExitCode::kNo;
    }
    const int width = context.terminal.width();
    context.terminal.Raw(MutationTable(registration, width));
    context.terminal.Raw(VerificationTable(MemberOf(result, "verification"), width));
    if (passed) {
      context.terminal.PrintFolded(
          Printable(fmt::format("{}: sound (digest {})", task.name(), ShortId(task.digest()))));
      return ExitCode::kOk;
    }
    context.terminal.PrintFolded(
        fmt::format("{}: refused: {}", Printable(task.name()), VerdictText(verdict)));
    for (const json& build : MemberOf(result, "builds")) {
      context.terminal.Raw(DiagnosticsText(MemberOf(build, "diagnostics")));
    }
    return ExitCode::kNo;
  }

  std::string task_;
  std::string target_ = "cpu";
  bool lint_only_ = false;
  bool json_ = false;
  LocalFlags local_;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeCheckCommand() { return std::make_unique<CheckCommand>(); }

}  // namespace fettle
