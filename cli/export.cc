// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/finish_bundle.h"
#include "cli/format.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "exporter/bundle.h"
#include "exporter/library.h"

namespace fettle {
namespace {

class ExportCommand final : public Subcommand {
 public:
  std::string name() const override { return "export"; }
  std::string summary() const override { return "write variants with their evidence as a bundle"; }
  std::string details() const override {
    return "Compiles the baseline as the fallback, makes test vectors and signs the checksums.\n"
           "Refused, with the reason, where the evidence is missing, stale or changed, where the\n"
           "interval reaches down to 1, or where the licence is not known.";
  }
  void Declare(FlagSet& flags) override {
    FlagSet::Item& variants = flags.Positional("VARIANT", &variants_, "variant ids of one task");
    variants.required = false;
    flags.Flag("--task", "NAME", &tasks_,
               "the best variants of this task instead; with --into any number of times");
    flags.Flag("--target", "T", &target_, "with --task: only for this architecture");
    flags.Flag("--out", "DIR", &out_, "folder to write; a bundle there is replaced").completes =
        Completes::kFolder;
    flags.Flag("--into", "LIBDIR", &into_, "operator library to add to or to update").completes =
        Completes::kFolder;
    finish_.Declare(flags);
    flags.Flag("--json", "", &json_, "print JSON");
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    if (variants_.empty() == tasks_.empty()) {
      return absl::InvalidArgumentError("name variants, or a task with --task; not both");
    }
    if (out_.empty() == into_.empty()) {
      return absl::InvalidArgumentError(
          "give --out, the folder to write, or --into, the library to add to");
    }
    if (!out_.empty() && tasks_.size() > 1) {
      return absl::InvalidArgumentError("--out takes one task; --into takes many");
    }
    FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
    v1::ExportBundleRequest request;
    for (const std::string& id : variants_) {
      FETTLE_ASSIGN_OR_RETURN(const v1::Variant variant, client->GetVariant(id));
      request.add_variant_ids(variant.id());
    }
    request.set_target(target_);
    nlohmann::json results = nlohmann::json::array();
    for (std::size_t i = 0; i < std::max<std::size_t>(tasks_.size(), 1); ++i) {
      if (!tasks_.empty()) request.set_task_name(tasks_[i]);
      FETTLE_ASSIGN_OR_RETURN(nlohmann::json result, ExportOne(context, *client, request));
      results.push_back(std::move(result));
    }
    if (json_) {
      const nlohmann::json& shown = out_.empty() ? results : results[0];
      context.terminal.Print(shown.dump(2, ' ', false, kReplaceInvalid));
    }
    return ExitCode::kOk;
  }

 private:
  absl::StatusOr<nlohmann::json> ExportOne(Context& context, OptimizerClient& client,
                                           const v1::ExportBundleRequest& request) {
    FETTLE_ASSIGN_OR_RETURN(const std::string bytes, client.ExportBundle(request));
    FETTLE_ASSIGN_OR_RETURN(const BundleFiles plain, UnpackBundle(bytes));
    std::vector<std::string> notes;
    FinishOptions options = finish_;
    options.no_sign = options.no_sign || !into_.empty();  // The library signs what it writes.
    FETTLE_ASSIGN_OR_RETURN(const BundleFiles files, FinishBundle(context, plain, options, &notes));
    nlohmann::json result;
    std::string text;
    if (!out_.empty()) {
      FETTLE_RETURN_IF_ERROR(WriteBundle(out_, files));
      result = {{"bundle", out_}, {"files", files.size()}, {"notes", notes}};
      text = fmt::format("{} ({} files); check it with fettle verify {}", out_, files.size(), out_);
    } else {
      std::string key;
      if (!finish_.no_sign) {
        FETTLE_ASSIGN_OR_RETURN(key, ReadSigningKey(finish_.key_file, &notes));
      }
      FETTLE_ASSIGN_OR_RETURN(const LibraryUpdate update, AddToLibrary(into_, files, key));
      result = {{"op", update.op},
                {"change", std::string(UpdateKindName(update.kind))},
                {"version", update.version},
                {"bundle", into_ + "/" + update.folder},
                {"variants", update.variants},
                {"added", update.added},
                {"superseded", update.superseded},
                {"notes", notes}};
      text =
          fmt::format("{} {} {}: {}/{}, {} variant{} in force, {} new, {} superseded", update.op,
                      update.version, std::string(UpdateKindName(update.kind)), into_,
                      update.folder, update.variants.size(), update.variants.size() == 1 ? "" : "s",
                      update.added.size(), update.superseded.size());
    }
    for (const std::string& note : notes) context.terminal.Note(Printable(note));
    if (!json_) context.terminal.Print(Printable(text));
    return result;
  }

  std::vector<std::string> variants_, tasks_;
  std::string target_, out_, into_;
  bool json_ = false;
  FinishOptions finish_;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeExportCommand() { return std::make_unique<ExportCommand>(); }

}  // namespace fettle
