// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "core/text.h"

namespace fettle {
namespace {

class VersionCommand final : public Subcommand {
 public:
  std::string name() const override { return "version"; }
  std::string summary() const override { return "print the version of fettle"; }
  void Declare(FlagSet& flags) override { flags.Flag("--json", "", &json_, "print JSON"); }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    if (json_) {
      context.terminal.Print(
          nlohmann::json{{"version", FettleVersion()}}.dump(-1, ' ', false, kReplaceInvalid));
    } else {
      context.terminal.Print(fmt::format("fettle {}", FettleVersion()));
    }
    return ExitCode::kOk;
  }

 private:
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> MakeVersionCommand() { return std::make_unique<VersionCommand>(); }

std::string FettleVersion() { return FETTLE_VERSION; }

}  // namespace fettle
