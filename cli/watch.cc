// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/job_view.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

class WatchCommand final : public Subcommand {
 public:
  std::string name() const override { return "watch"; }
  std::string summary() const override { return "follow a job until it ends"; }
  std::string details() const override {
    return "Exit code: 0 the job has a variant, 1 it has none, 3 stopped watching.";
  }
  void Declare(FlagSet& flags) override {
    flags.Positional("JOB", &job_, "job id");
    flags.Flag("--after", "SEQUENCE", &after_, "leave out events up to this one");
    flags.Flag("--patience", "S", &patience_, "wait so long for a server that went away (120 s)");
    flags.Flag("--json", "", &json_, "print one JSON object per event");
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
    FETTLE_ASSIGN_OR_RETURN(const v1::Job job, client->GetJob(job_));
    return FollowJob(context, *client, job, after_, json_, static_cast<int>(patience_));
  }

 private:
  std::string job_;
  std::int64_t after_ = 0;
  std::int64_t patience_ = 120;
  bool json_ = false;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeWatchCommand() { return std::make_unique<WatchCommand>(); }

}  // namespace fettle
