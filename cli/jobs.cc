// SPDX-License-Identifier: Apache-2.0
#include <ctime>

#include <fmt/format.h>

#include "cli/budget_text.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "proto/wire_json.h"

namespace fettle {
namespace {

class JobsCommand final : public Subcommand {
 public:
  std::string name() const override { return "jobs"; }
  std::string summary() const override { return "list jobs, newest first, or show one"; }
  void Declare(FlagSet& flags) override {
    flags.Positional("JOB", &job_, "only this job (an id; default: all)").required = false;
    flags.Flag("--limit", "N", &limit_, "at most this many (default 50, 0: all)");
    flags.Flag("--json", "", &json_, "print JSON");
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
    if (!job_.empty() && json_) {
      FETTLE_ASSIGN_OR_RETURN(const v1::Job job, client->GetJob(job_));
      context.terminal.Print(ToJson(job).dump(2, ' ', false, kReplaceInvalid));
      return ExitCode::kOk;
    }
    std::vector<v1::Job> jobs;
    if (job_.empty()) {
      FETTLE_ASSIGN_OR_RETURN(jobs, client->ListJobs(static_cast<int>(limit_)));
    } else {
      FETTLE_ASSIGN_OR_RETURN(jobs.emplace_back(), client->GetJob(job_));
    }
    if (json_) {
      nlohmann::json list = nlohmann::json::array();
      for (const v1::Job& job : jobs) list.push_back(ToJson(job));
      context.terminal.Print(list.dump(2, ' ', false, kReplaceInvalid));
      return ExitCode::kOk;
    }
    if (jobs.empty()) {
      context.terminal.Note("no jobs yet; submit one with fettle submit TASK");
      return ExitCode::kOk;
    }
    Table table({{"JOB"},
                 {"TASK"},
                 {"TARGET"},
                 {"STATE"},
                 {"CANDIDATES", true},
                 {"BEST", true},
                 {"AGE", true}});
    const std::int64_t now = std::time(nullptr);
    for (const v1::Job& job : jobs) {
      table.Row({job.id(), Printable(job.task_name()), job.target(), JobStateName(job.state()),
                 FormatCount(job.candidate_count()), FormatRatio(job.best_ratio_declared()),
                 FormatAge(std::max<std::int64_t>(now - job.created().seconds(), 0))});
    }
    context.terminal.Raw(table.Render(context.terminal.width()));
    // What open jobs wait for: a full disk, a worker. Of one job also how it ended.
    for (const v1::Job& job : jobs) {
      if (job.message().empty() || (IsFinal(job.state()) && job_.empty())) continue;
      context.terminal.PrintFolded(Printable(fmt::format("{}: {}", job.id(), job.message())));
    }
    if (!job_.empty()) {
      const v1::Job& job = jobs.front();
      if (const std::string spent = SpentText(job.spent(), job.budget()); !spent.empty()) {
        context.terminal.PrintFolded("spent: " + spent);
      }
    }
    return ExitCode::kOk;
  }

 private:
  std::string job_;
  std::int64_t limit_ = 50;
  bool json_ = false;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeJobsCommand() { return std::make_unique<JobsCommand>(); }

}  // namespace fettle
