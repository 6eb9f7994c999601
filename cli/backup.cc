// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/data_folder.h"
#include "cli/paths.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace fettle {
namespace {

class BackupCommand final : public Subcommand {
 public:
  std::string name() const override { return "backup"; }
  std::string summary() const override {
    return "copy a data folder, also beside a running server";
  }
  std::string details() const override {
    return "The copy holds the database, checked, and every blob; fettle serve --data-dir on it\n"
           "takes up where the backup was made.";
  }
  void Declare(FlagSet& flags) override {
    flags.Positional("DIR", &target_, "new folder for the copy").completes = Completes::kFolder;
    flags.Flag("--data-dir", "DIR", &data_, "data folder (FETTLE_DATA_DIR)")
        .Alias("--data")
        .completes = Completes::kFolder;
    flags.Flag("--json", "", &json_, "print JSON");
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    const std::string data = DataFolder(data_);
    const std::string target = DataFolder(target_);
    context.terminal.Status(fmt::format("copying {}", data));
    if (absl::Status copied = BackupDataDir(data, target); !copied.ok()) {
      return absl::IsAlreadyExists(copied) ? copied : CannotOpen(copied);
    }
    context.terminal.Status("");
    context.terminal.Print(json_ ? nlohmann::json{{"data_dir", data}, {"backup", target}}.dump(
                                       2, ' ', false, kReplaceInvalid)
                                 : fmt::format("{} copied to {}", data, target));
    return ExitCode::kOk;
  }

 private:
  std::string data_, target_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> MakeBackupCommand() { return std::make_unique<BackupCommand>(); }

}  // namespace fettle
