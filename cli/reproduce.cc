// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/local.h"
#include "cli/report.h"
#include "cli/task_folder.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "proto/wire_json.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr int kJobsSearched = 200;

// A candidate's verdict once more, on this machine: what the server said of it, and what is seen
// here.
class ReproduceCommand final : public Subcommand {
 public:
  std::string name() const override { return "reproduce"; }
  std::string summary() const override {
    return "a candidate's verdict once more, on this machine";
  }
  std::string details() const override {
    return "Takes the candidate from the server and runs it here: on the case that decided, unless "
           "--case names\n"
           "another. What a held-out case decided is tried on newly drawn sizes, since the old "
           "ones "
           "stay secret.\n"
           "Inputs are drawn anew. Exit code: 0 the same verdict, 1 another one.";
  }
  void Declare(FlagSet& flags) override {
    flags.Positional("CANDIDATE", &candidate_, "digest of the candidate");
    flags.Flag("--task", "FOLDER", &task_, "the task's folder").completes = Completes::kFolder;
    flags.Flag("--job", "JOB", &job_, "the candidate's job (default: the latest that has it)");
    flags.Flag("--case", "LABEL", &case_, "as timed/0 or checked/3 (a bare N: checked/N)");
    flags.Flag("--measure", "", &measure_, "time it too");
    flags.Flag("--json", "", &json_, "print JSON");
    local_.Declare(flags);
    connection_.Declare(flags);
  }

  absl::StatusOr<ExitCode> Run(Context& context) override {
    if (task_.empty()) {
      return absl::InvalidArgumentError("--task FOLDER is needed: the task that was submitted");
    }
    FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
    FETTLE_ASSIGN_OR_RETURN(const v1::Candidate candidate, Find(*client));
    FETTLE_ASSIGN_OR_RETURN(const v1::Job job, client->GetJob(candidate.job_id()));
    FETTLE_ASSIGN_OR_RETURN(const std::shared_ptr<const Task> task, LoadTask(job));
    std::vector<TaskProblem> problems;
    const auto kernel = task->ParseKernelSpec(ParseDocument(candidate.kernel_json()), &problems);
    if (!kernel.ok()) {
      return absl::FailedPreconditionError(
          fmt::format("candidate {}: {}", ShortId(candidate_), FormatProblems(problems)));
    }
    const json before = ParseDocument(candidate.verdict_json());
    FETTLE_ASSIGN_OR_RETURN(LocalLab lab, LocalLab::Open(local_));
    FETTLE_ASSIGN_OR_RETURN(WorkUnit unit,
                            BaselineUnit(UnitKind::kEvaluate, *task, job.target(), *lab.blobs));
    unit.candidate = {candidate.digest(), *kernel, kernel->values};
    unit.screen = false;
    unit.measure = measure_;
    const std::string decided = TextOf(before, "case");
    if (case_.empty() && decided == "held_out") {
      unit.kind = UnitKind::kConfirm;
    } else {
      unit.only_case = case_.empty() ? decided : case_;
    }
    if (!unit.only_case.empty() && unit.only_case.find('/') == std::string::npos) {
      unit.only_case = "checked/" + unit.only_case;
    }
    FETTLE_ASSIGN_OR_RETURN(const UnitResult result, lab.Run(context, std::move(unit)));
    return Report(context.terminal, before, result);
  }

 private:
  absl::StatusOr<v1::Candidate> Find(OptimizerClient& client) {
    if (!job_.empty()) return client.GetCandidate(job_, candidate_);
    FETTLE_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs, client.ListJobs(kJobsSearched));
    for (const v1::Job& job : jobs) {
      auto found = client.GetCandidate(job.id(), candidate_);
      if (found.ok() || !absl::IsNotFound(found.status())) return found;
    }
    return absl::NotFoundError(
        fmt::format("no candidate {} in the latest {} jobs; name its job with --job",
                    ShortId(candidate_), jobs.size()));
  }

  absl::StatusOr<std::shared_ptr<const Task>> LoadTask(const v1::Job& job) {
    FETTLE_ASSIGN_OR_RETURN(TaskFiles files, ReadTaskFolder(task_));
    std::vector<TaskProblem> problems;
    auto task = Task::Parse(std::move(files), &problems);
    if (!task.ok() && !problems.empty()) {
      return absl::FailedPreconditionError(FormatProblems(problems));
    }
    FETTLE_RETURN_IF_ERROR(task.status());
    if ((*task)->digest() == job.task_digest()) return *std::move(task);
    return absl::FailedPreconditionError(fmt::format(
        "{} is not the task of job {}: its digest is {}, the job's {}; check out the version that "
        "was submitted",
        task_, job.id(), ShortId((*task)->digest()), ShortId(job.task_digest())));
  }

  absl::StatusOr<ExitCode> Report(Terminal& terminal, const json& before,
                                  const UnitResult& result) {
    const json document = ToJson(result);
    const std::string was = TextOf(before, "verdict");
    const json now = result.verdict ? ToJson(*result.verdict) : json();
    // What was right and lost on its times is right here too.
    const bool was_right = was == "WIN" || was == "NO_WIN" || was == "AMBIGUOUS" || was.empty();
    const bool same = now.is_null() ? was_right : TextOf(now, "verdict") == was;
    if (json_) {
      const json out = {{"before", before}, {"result", document}, {"same", same}};
      terminal.Print(out.dump(2, ' ', false, kReplaceInvalid));
      return same ? ExitCode::kOk : ExitCode::kNo;
    }
    for (const json& build : MemberOf(document, "builds")) {
      terminal.Raw(DiagnosticsText(MemberOf(build, "diagnostics")));
    }
    terminal.Raw(VerificationTable(MemberOf(document, "verification"), terminal.width()));
    terminal.Raw(MeasurementTable(MemberOf(document, "measurement"), terminal.width()));
    terminal.PrintFolded("then: " + (before.is_null() ? "under way" : VerdictText(before)));
    terminal.PrintFolded("now:  " + (now.is_null() ? "right" : VerdictText(now)));
    return same ? ExitCode::kOk : ExitCode::kNo;
  }

  std::string candidate_, task_, job_, case_;
  bool measure_ = false, json_ = false;
  LocalFlags local_;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeReproduceCommand() { return std::make_unique<ReproduceCommand>(); }

}  // namespace fettle
