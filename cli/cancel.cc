// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "proto/wire_json.h"

namespace fettle {
namespace {

class CancelCommand final : public Subcommand {
 public:
  std::string name() const override { return "cancel"; }
  std::string summary() const override { return "stop a job; what it accepted stays"; }
  void Declare(FlagSet& flags) override {
    flags.Positional("JOB", &job_, "job id");
    flags.Flag("--json", "", &json_, "print JSON");
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
    FETTLE_ASSIGN_OR_RETURN(const v1::Job job, client->CancelJob(job_));
    if (json_) {
      context.terminal.Print(ToJson(job).dump(2, ' ', false, kReplaceInvalid));
    } else {
      context.terminal.Print(fmt::format("job {} {}", job.id(), JobStateName(job.state())));
    }
    return ExitCode::kOk;
  }

 private:
  std::string job_;
  bool json_ = false;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeCancelCommand() { return std::make_unique<CancelCommand>(); }

}  // namespace fettle
