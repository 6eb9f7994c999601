// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/budget_flags.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/job_view.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "proto/wire_json.h"

namespace fettle {
namespace {

class ResumeCommand final : public Subcommand {
 public:
  std::string name() const override { return "resume"; }
  std::string summary() const override { return "take up an ended job, with a larger budget"; }
  void Declare(FlagSet& flags) override {
    flags.Positional("JOB", &job_, "job id");
    budget_.Declare(flags);
    flags.Flag("--watch", "", &watch_, "follow it (default on a terminal)");
    flags.Flag("--no-watch", "", &no_watch_, "only print its state");
    flags.Flag("--json", "", &json_, "print JSON");
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
    v1::ResumeJobRequest request;
    request.set_job_id(job_);
    if (!budget_.empty()) {
      FETTLE_ASSIGN_OR_RETURN(*request.mutable_budget(), budget_.ToWire());
    }
    FETTLE_ASSIGN_OR_RETURN(const v1::Job job, client->ResumeJob(request));
    if (!no_watch_ && (watch_ || context.terminal.is_terminal())) {
      return FollowJob(context, *client, job, job.last_sequence(), json_, 120);
    }
    if (json_) {
      context.terminal.Print(ToJson(job).dump(2, ' ', false, kReplaceInvalid));
    } else {
      context.terminal.Print(fmt::format("job {} {}", job.id(), JobStateName(job.state())));
    }
    return ExitCode::kOk;
  }

 private:
  std::string job_;
  BudgetFlags budget_;
  bool watch_ = false;
  bool no_watch_ = false;
  bool json_ = false;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeResumeCommand() { return std::make_unique<ResumeCommand>(); }

}  // namespace fettle
