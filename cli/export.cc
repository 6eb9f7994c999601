// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "exporter/bundle.h"

namespace fettle {
namespace {

class ExportCommand final : public Subcommand {
 public:
  std::string name() const override { return "export"; }
  std::string summary() const override { return "write variants with their evidence as a bundle"; }
  std::string details() const override {
    return "Refused, with the reason, where the evidence is missing, stale or changed, where the\n"
           "interval reaches down to 1, or where the licence is not known.";
  }
  void Declare(FlagSet& flags) override {
    FlagSet::Item& variants = flags.Positional("VARIANT", &variants_, "variant ids of one task");
    variants.required = false;
    flags.Flag("--task", "NAME", &task_, "the best variants of this task instead");
    flags.Flag("--target", "T", &target_, "with --task: only for this architecture");
    flags.Flag("--out", "DIR", &out_, "folder to write; a bundle there is replaced").completes =
        Completes::kFolder;
    flags.Flag("--json", "", &json_, "print JSON");
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    if (variants_.empty() == task_.empty()) {
      return absl::InvalidArgumentError("name variants, or a task with --task; not both");
    }
    if (out_.empty()) return absl::InvalidArgumentError("--out is required: the folder to write");
    FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
    v1::ExportBundleRequest request;
    for (const std::string& id : variants_) {
      FETTLE_ASSIGN_OR_RETURN(const v1::Variant variant, client->GetVariant(id));
      request.add_variant_ids(variant.id());
    }
    request.set_task_name(task_);
    request.set_target(target_);
    FETTLE_ASSIGN_OR_RETURN(const std::string bytes, client->ExportBundle(request));
    FETTLE_ASSIGN_OR_RETURN(const BundleFiles files, UnpackBundle(bytes));
    FETTLE_RETURN_IF_ERROR(WriteBundle(out_, files));
    if (json_) {
      context.terminal.Print(nlohmann::json{{"bundle", out_}, {"files", files.size()}}.dump(2, ' ', false, kReplaceInvalid));
    } else {
      context.terminal.Print(
          fmt::format("{} ({} files); check it with fettle verify {}", out_, files.size(), out_));
    }
    return ExitCode::kOk;
  }

 private:
  std::vector<std::string> variants_;
  std::string task_, target_, out_;
  bool json_ = false;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeExportCommand() { return std::make_unique<ExportCommand>(); }

}  // namespace fettle
