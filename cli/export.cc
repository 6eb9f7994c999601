// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/finish_bundle.h"
#include "cli/format.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "exporter/bundle.h"
#include "exporter/library.h"
#include "exporter/verify.h"
#include "proto/wire_json.h"

namespace fettle {
namespace {

class ExportCommand final : public Subcommand {
 public:
  std::string name() const override { return "export"; }
  std::string summary() const override { return "write variants with their evidence as a bundle"; }
  std::string details() const override {
    return "Compiles the baseline as the fallback, makes test vectors and signs the checksums.\n"
           "--into adds to a library; variants there that a recheck demoted since are withdrawn.\n"
           "--from takes a bundle instead of a server's variants, with its reruns: what they show\n"
           "to run on a device is `run` from then on.\n"
           "Refused, with the reason, where the evidence is missing, stale or changed, where the\n"
           "interval reaches down to 1, or where the licence is not known.";
  }
  void Declare(FlagSet& flags) override {
    FlagSet::Item& variants = flags.Positional("VARIANT", &variants_, "variant ids of one task");
    variants.required = false;
    flags.Flag("--task", "NAME", &tasks_,
               "the best variants of this task instead; with --into any number of times");
    flags
        .Flag("--from", "BUNDLE", &from_, "a bundle instead, with what fettle verify --rerun added")
        .completes = Completes::kFolder;
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
    if (static_cast<int>(variants_.empty()) + static_cast<int>(tasks_.empty()) +
            static_cast<int>(from_.empty()) !=
        2) {
      return absl::InvalidArgumentError(
          "name variants, a task with --task, or a bundle with --from; one of them");
    }
    if (out_.empty() == into_.empty()) {
      return absl::InvalidArgumentError(
          "give --out, the folder to write, or --into, the library to add to; one of them");
    }
    if (!out_.empty() && tasks_.size() > 1) {
      return absl::InvalidArgumentError("--out takes one task; --into takes many");
    }
    if (!from_.empty()) {
      std::vector<std::string> notes;
      FETTLE_ASSIGN_OR_RETURN(const BundleFiles plain, FromBundle(&notes));
      FETTLE_ASSIGN_OR_RETURN(const nlohmann::json result,
                              Write(context, plain, /*withdrawn=*/{}, std::move(notes)));
      if (json_) context.terminal.Print(result.dump(2, ' ', false, kReplaceInvalid));
      return ExitCode::kOk;
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
    const absl::StatusOr<std::string> bytes = client.ExportBundle(request);
    if (!bytes.ok()) {
      if (into_.empty() || request.task_name().empty()) return bytes.status();
      // None of the task's variants may be exported; those of the library may have been demoted.
      const auto withdrawn = Demoted(client, request.task_name());
      if (withdrawn.empty()) return bytes.status();
      std::vector<std::string> notes = {std::string(bytes.status().message())};
      FETTLE_ASSIGN_OR_RETURN(const std::string key, LibraryKey(&notes));
      FETTLE_ASSIGN_OR_RETURN(const LibraryUpdate update,
                              WithdrawFromLibrary(into_, request.task_name(),
                                                  {.signing_key = key, .withdrawn = withdrawn}));
      return Report(context, update, notes);
    }
    FETTLE_ASSIGN_OR_RETURN(const BundleFiles plain, UnpackBundle(*bytes));
    std::map<std::string, std::string> withdrawn;
    if (!into_.empty()) {
      FETTLE_ASSIGN_OR_RETURN(const BundleParts parts, ReadParts(plain));
      withdrawn = Demoted(client, parts.variants.front().task_name);
    }
    return Write(context, plain, withdrawn, {});
  }

  // The bundle --from, whole, with what its reruns show.
  absl::StatusOr<BundleFiles> FromBundle(std::vector<std::string>* notes) {
    FETTLE_ASSIGN_OR_RETURN(BundleFiles files, ReadBundle(from_));
    FETTLE_ASSIGN_OR_RETURN(const BundleReport report,
                            RequireWholeBundle(files, "export from " + from_));
    // Its objects and vectors are those that were exported.
    finish_.no_build = finish_.no_build || finish_.also.empty();
    absl::StatusOr<BundleFiles> taken = TakeReruns(files, notes);
    if (absl::IsNotFound(taken.status())) {
      notes->push_back(std::string(taken.status().message()));
      return files;
    }
    FETTLE_RETURN_IF_ERROR(taken.status());
    if (finish_.version.empty()) {
      finish_.version = NextVersion(report.manifest["bundle"]["version"].get<std::string>(),
                                    /*changed_operator=*/false);
    }
    return taken;
  }

  // Those of the library's variants of an operator that the server has demoted, with its reasons.
  std::map<std::string, std::string> Demoted(OptimizerClient& client, const std::string& op) {
    std::map<std::string, std::string> demoted;
    for (const std::string& id : LibraryVariants(into_, op)) {
      const absl::StatusOr<v1::Variant> variant = client.GetVariant(id);
      if (!variant.ok() || variant->id() != id || variant->status() != "demoted") continue;
      const nlohmann::json document = ParseDocument(variant->provenance_json());
      const nlohmann::json::json_pointer at("/variant/status_reason");
      const nlohmann::json reason =
          document.is_object() && document.contains(at) ? document[at] : nlohmann::json();
      demoted[id] = reason.is_string() ? reason.get<std::string>() : "demoted";
    }
    return demoted;
  }

  absl::StatusOr<std::string> LibraryKey(std::vector<std::string>* notes) {
    if (finish_.no_sign) return std::string();
    return ReadSigningKey(finish_.key_file, notes);
  }

  absl::StatusOr<nlohmann::json> Write(Context& context, const BundleFiles& plain,
                                       const std::map<std::string, std::string>& withdrawn,
                                       std::vector<std::string> notes) {
    FinishOptions options = finish_;
    options.no_sign = options.no_sign || !into_.empty();  // The library signs what it writes.
    FETTLE_ASSIGN_OR_RETURN(const BundleFiles files, FinishBundle(context, plain, options, &notes));
    if (!out_.empty()) {
      FETTLE_RETURN_IF_ERROR(WriteBundle(out_, files));
      for (const std::string& note : notes) context.terminal.Note(Printable(note));
      if (!json_) {
        context.terminal.Print(Printable(fmt::format(
            "{} ({} files); check it with\n  fettle verify {}", out_, files.size(), out_)));
      }
      return nlohmann::json{{"bundle", out_}, {"files", files.size()}, {"notes", notes}};
    }
    FETTLE_ASSIGN_OR_RETURN(const std::string key, LibraryKey(&notes));
    FETTLE_ASSIGN_OR_RETURN(
        const LibraryUpdate update,
        AddToLibrary(into_, files, {.signing_key = key, .withdrawn = withdrawn}));
    return Report(context, update, notes);
  }

  nlohmann::json Report(Context& context, const LibraryUpdate& update,
                        const std::vector<std::string>& notes) {
    const std::string folder = update.folder.empty() ? "" : into_ + "/" + update.folder;
    for (const std::string& note : notes) context.terminal.Note(Printable(note));
    if (!json_) {
      const auto line = [&](const std::string& text) { context.terminal.Print(Printable(text)); };
      line(fmt::format("{} {} {}", update.op, update.version,
                       std::string(UpdateKindName(update.kind))));
      line(fmt::format("  {} in force, {} new, {} superseded", update.variants.size(),
                       update.added.size(), update.superseded.size()));
      for (const std::string& id : update.superseded) {
        line(fmt::format("  superseded {}, kept in {}", id, update.previous));
      }
      for (const std::string& id : update.declined) {
        line(fmt::format("  not taken {}: no faster at any timed size", id));
      }
      for (const auto& [id, reason] : update.withdrawn) {
        line(fmt::format("  withdrawn {}: {}", id, reason));
      }
      if (!folder.empty()) line("  " + folder);
    }
    return {{"op", update.op},
            {"change", std::string(UpdateKindName(update.kind))},
            {"version", update.version},
            {"bundle", folder},
            {"variants", update.variants},
            {"added", update.added},
            {"superseded", update.superseded},
            {"not_taken", update.declined},
            {"withdrawn", update.withdrawn},
            {"notes", notes}};
  }

  std::vector<std::string> variants_, tasks_;
  std::string from_, target_, out_, into_;
  bool json_ = false;
  FinishOptions finish_;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeExportCommand() { return std::make_unique<ExportCommand>(); }

}  // namespace fettle
