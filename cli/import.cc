// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/data_folder.h"
#include "cli/local.h"
#include "cli/paths.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "exporter/bundle.h"
#include "exporter/import_variants.h"
#include "exporter/verify.h"
#include "store/variant_store.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

constexpr int kMostVariants = 10'000;

class ImportCommand final : public Subcommand {
 public:
  std::string name() const override { return "import"; }
  std::string summary() const override {
    return "take the variants of a bundle or of another data folder";
  }
  std::string details() const override {
    return "Checks the evidence first and refuses what an export would refuse. Needs the server\n"
           "stopped, and that of the other data folder too. Ids, status and times stay.";
  }
  void Declare(FlagSet& flags) override {
    flags.Positional("FROM", &from_, "bundle folder, or data folder of another server").completes =
        Completes::kFolder;
    flags.Flag("--data-dir", "DIR", &data_, "data folder to import into (FETTLE_DATA_DIR)")
        .Alias("--data")
        .completes = Completes::kFolder;
    flags.Flag("--json", "", &json_, "print JSON");
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    std::error_code error;
    if (!fs::is_directory(from_, error)) {
      return absl::InvalidArgumentError(fmt::format(
          "import {}: no such folder; give a bundle, or the data folder of a server", from_));
    }
    const bool bundle = fs::exists(fs::path(from_) / "manifest.json", error);
    if (!bundle && !fs::exists(fs::path(from_) / "fettle.db", error)) {
      return absl::NotFoundError(fmt::format(
          "import {}: neither a bundle (manifest.json) nor a data folder (fettle.db) is there",
          from_));
    }
    FETTLE_ASSIGN_OR_RETURN(const auto store, OpenDataFolder(DataFolder(data_), /*create=*/true));
    FETTLE_ASSIGN_OR_RETURN(const ImportReport report,
                            bundle ? FromBundle(*store) : FromStore(*store));
    if (json_) {
      context.terminal.Print(
          nlohmann::json{{"imported", report.imported}, {"known", report.known}}.dump(
              2, ' ', false, kReplaceInvalid));
    } else {
      for (const std::string& id : report.imported) context.terminal.Print("imported " + id);
      context.terminal.Print(fmt::format("{} imported, {} known already", report.imported.size(),
                                         report.known.size()));
    }
    return ExitCode::kOk;
  }

 private:
  absl::StatusOr<ImportReport> FromBundle(Store& store) {
    FETTLE_ASSIGN_OR_RETURN(const BundleFiles files, ReadBundle(from_));
    FETTLE_ASSIGN_OR_RETURN(const BundleReport report,
                            RequireWholeBundle(files, "import " + from_));
    MemoryBlobs blobs;
    TaskFiles task;
    for (const auto& [path, bytes] : files) {
      if (path.starts_with("task/")) task.emplace(path.substr(5), bytes);
      if (path.starts_with("objects/")) FETTLE_RETURN_IF_ERROR(blobs.Put(bytes).status());
    }
    FETTLE_RETURN_IF_ERROR(blobs.Put(PackTaskFiles(task)).status());
    const std::string digest = report.manifest["bundle"]["digest"].get<std::string>();
    return ImportVariants(store, report.variants, blobs, "bundle " + digest.substr(0, 16));
  }

  absl::StatusOr<ImportReport> FromStore(Store& store) {
    FETTLE_ASSIGN_OR_RETURN(const auto other, OpenDataFolder(DataFolder(from_), /*create=*/false));
    std::vector<VariantProvenance> variants;
    FETTLE_RETURN_IF_ERROR(other->Read([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(const std::vector<VariantRow> rows,
                              ListVariants(db, {}, 0, "", kMostVariants));
      for (const VariantRow& row : rows) {
        if (row.status == variant_status::kDemoted) continue;
        FETTLE_ASSIGN_OR_RETURN(const std::optional<VariantRow> whole, FindVariant(db, row.id));
        if (!whole.has_value()) continue;
        FETTLE_ASSIGN_OR_RETURN(VariantProvenance variant, ParseProvenance(whole->provenance_json));
        variant.status = row.status;
        variant.document["variant"]["status"] = row.status;
        variants.push_back(std::move(variant));
      }
      return absl::OkStatus();
    }));
    return ImportVariants(store, variants, other->blobs(), "store " + other->data_dir_id());
  }

  std::string from_, data_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> MakeImportCommand() { return std::make_unique<ImportCommand>(); }

}  // namespace fettle
