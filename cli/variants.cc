// SPDX-License-Identifier: Apache-2.0
#include <ctime>

#include <fmt/format.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "proto/wire_json.h"

namespace fettle {
namespace {

class VariantsCommand final : public Subcommand {
 public:
  std::string name() const override { return "variants"; }
  std::string summary() const override { return "list accepted variants, newest first"; }
  void Declare(FlagSet& flags) override {
    flags.Flag("--task", "NAME", &task_, "only of this task");
    flags.Flag("--target", "T", &target_, "only for this architecture");
    flags.Flag("--job", "JOB", &job_, "only of this job");
    flags.Flag("--status", "S", &status_, "only with this status").choices = {
        "accepted", "superseded", "demoted"};
    flags.Flag("--limit", "N", &limit_, "at most this many (default 100, 0: all)");
    flags.Flag("--json", "", &json_, "print JSON");
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
    v1::ListVariantsRequest request;
    request.set_task_name(task_);
    request.set_target(target_);
    request.set_job_id(job_);
    request.set_status(status_);
    FETTLE_ASSIGN_OR_RETURN(const auto variants,
                            client->ListVariants(request, static_cast<int>(limit_)));
    if (json_) {
      nlohmann::json list = nlohmann::json::array();
      for (const v1::Variant& variant : variants) list.push_back(ToJson(variant));
      context.terminal.Print(list.dump(2, ' ', false, kReplaceInvalid));
      return ExitCode::kOk;
    }
    if (variants.empty()) {
      context.terminal.Note("no variants");
      return ExitCode::kOk;
    }
    Table table({{"VARIANT"},
                 {"TASK"},
                 {"TARGET"},
                 {"SPEED-UP"},
                 {"ROOF", true},
                 {"STATUS"},
                 {"AGE", true}});
    const std::int64_t now = std::time(nullptr);
    for (const v1::Variant& variant : variants) {
      table.Row({ShortId(variant.id()), Printable(variant.task_name()), variant.target(),
                 FormatInterval(variant.ratio(), variant.ratio_low(), variant.ratio_high()),
                 FormatPercent(variant.roofline_fraction()), variant.status(),
                 FormatAge(std::max<std::int64_t>(now - variant.accepted().seconds(), 0))});
    }
    context.terminal.Raw(table.Render(context.terminal.width()));
    return ExitCode::kOk;
  }

 private:
  std::string task_, target_, job_, status_;
  std::int64_t limit_ = 100;
  bool json_ = false;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeVariantsCommand() { return std::make_unique<VariantsCommand>(); }

}  // namespace fettle
