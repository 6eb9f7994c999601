// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "proto/wire_json.h"

namespace fettle {
namespace {

class CandidatesCommand final : public Subcommand {
 public:
  std::string name() const override { return "candidates"; }
  std::string summary() const override { return "list a job's candidates with their verdicts"; }
  void Declare(FlagSet& flags) override {
    flags.Positional("JOB", &job_, "job id");
    flags.Flag("--verdict", "V", &verdict_, "only these, as WIN, NO_WIN or INCORRECT");
    flags.Flag("--limit", "N", &limit_, "at most this many (default 100, 0: all)");
    flags.Flag("--json", "", &json_, "print JSON");
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
    FETTLE_ASSIGN_OR_RETURN(const auto candidates,
                            client->ListCandidates(job_, verdict_, static_cast<int>(limit_)));
    if (json_) {
      nlohmann::json list = nlohmann::json::array();
      for (const v1::Candidate& candidate : candidates) list.push_back(ToJson(candidate));
      context.terminal.Print(list.dump(2, ' ', false, kReplaceInvalid));
      return ExitCode::kOk;
    }
    Table table({{"#", true}, {"DIGEST"}, {"VALUES"}, {"SPEED-UP", true}, {"VERDICT"}, {"REASON"}});
    for (const v1::Candidate& candidate : candidates) {
      const nlohmann::json verdict = ParseDocument(candidate.verdict_json());
      table.Row({fmt::format("{}", candidate.ordinal()), ShortId(candidate.digest()),
                 FormatValuesText(candidate.values_json()), FormatRatio(candidate.ratio()),
                 TextOf(verdict, "verdict", "under way"),
                 Printable(TextOf(verdict, "reason_code"))});
    }
    if (table.empty()) {
      context.terminal.Note("no such candidates");
      return ExitCode::kOk;
    }
    context.terminal.Raw(table.Render(context.terminal.width()));
    return ExitCode::kOk;
  }

 private:
  std::string job_, verdict_;
  std::int64_t limit_ = 100;
  bool json_ = false;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeCandidatesCommand() {
  return std::make_unique<CandidatesCommand>();
}

}  // namespace fettle
