// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/data_folder.h"
#include "cli/format.h"
#include "cli/local.h"
#include "cli/paths.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "exporter/evidence_check.h"
#include "exporter/verify.h"
#include "store/variant_store.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr int kMostVariants = 10'000;

struct Finding {
  std::string variant, task, target;
  std::string state;  // "holds", "demoted", "not checked"
  std::string reason;
  double before = 0, now = 0, now_low = 0;
  int objects_equal = 0, objects_different = 0;
};

class RecheckCommand final : public Subcommand {
 public:
  std::string name() const override { return "recheck"; }
  std::string summary() const override {
    return "verify and measure all accepted variants again; demote what no longer holds";
  }
  std::string details() const override {
    return "For new compilers, drivers and devices. Needs the server stopped. A variant whose\n"
           "evidence is damaged or whose outputs are wrong is demoted at once; one that is no "
           "longer\n"
           "faster only when a second run says so too. What this machine cannot run stays.\n"
           "Exit code: 0 all hold, 1 some were demoted, 3 none could be checked.";
  }
  void Declare(FlagSet& flags) override {
    flags.Flag("--data-dir", "DIR", &data_, "data folder (FETTLE_DATA_DIR)")
        .Alias("--data")
        .completes = Completes::kFolder;
    flags.Flag("--task", "NAME", &task_, "only variants of this task");
    flags.Flag("--target", "T", &target_, "only for this architecture");
    flags.Flag("--dry-run", "", &dry_run_, "report, but demote nothing");
    flags.Flag("--json", "", &json_, "print JSON");
    local_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override;

 private:
  absl::StatusOr<Finding> Check(Context& context, LocalLab& lab, Store& store,
                                const VariantRow& row);
  absl::StatusOr<RerunOutcome> RunOnce(Context& context, LocalLab& lab,
                                       const VariantProvenance& variant,
                                       const BundleFiles& task_files);
  void Print(Context& context, const std::vector<Finding>& findings) const;

  std::string data_, task_, target_;
  bool dry_run_ = false, json_ = false;
  LocalFlags local_;
};

absl::StatusOr<RerunOutcome> RecheckCommand::RunOnce(Context& context, LocalLab& lab,
                                                     const VariantProvenance& variant,
                                                     const BundleFiles& task_files) {
  FETTLE_ASSIGN_OR_RETURN(Rerun rerun, MakeRerun(variant, task_files, DrawSeed(), DrawSeed()));
  FETTLE_RETURN_IF_ERROR(lab.blobs->Put(rerun.task_blob_bytes).status());
  FETTLE_ASSIGN_OR_RETURN(const UnitResult result, lab.Run(context, std::move(rerun.unit)));
  return JudgeRerun(variant, result);
}

absl::StatusOr<Finding> RecheckCommand::Check(Context& context, LocalLab& lab, Store& store,
                                              const VariantRow& row) {
  Finding finding{.variant = row.id,
                  .task = row.task_name,
                  .target = row.target,
                  .state = "holds",
                  .reason = {},
                  .before = row.ratio};
  absl::StatusOr<VariantProvenance> variant = ParseProvenance(row.provenance_json);
  absl::Status evidence = variant.status();
  if (variant.ok()) evidence = CheckEvidence(*variant, store.blobs()).status();
  if (!evidence.ok()) {
    finding.state = "demoted";
    finding.reason = std::string(evidence.message());
    return finding;
  }
  bool here = false;
  for (const DeviceInfo& device : lab.runner->devices())
    here = here || (device.target.name == row.target && !device.emulated);
  if (!here) {
    finding.state = "not checked";
    finding.reason = fmt::format("no device for {} here", row.target);
    return finding;
  }
  FETTLE_ASSIGN_OR_RETURN(const std::string blob, store.blobs().Get(variant->task_blob));
  FETTLE_ASSIGN_OR_RETURN(const TaskFiles task, UnpackTaskFiles(blob));
  BundleFiles files;
  for (const auto& [path, text] : task) files["task/" + path] = text;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const absl::StatusOr<RerunOutcome> outcome = RunOnce(context, lab, *variant, files);
    if (!outcome.ok()) {
      // The infrastructure's fault says nothing of the variant.
      finding.state = "not checked";
      finding.reason = std::string(outcome.status().message());
      return finding;
    }
    finding.now = outcome->ratio;
    finding.now_low = outcome->ratio_low;
    finding.objects_equal = outcome->objects_equal;
    finding.objects_different = outcome->objects_different;
    finding.reason = outcome->reason;
    finding.state = outcome->passed ? "holds" : outcome->undecided ? "not checked" : "demoted";
    // Wrong is wrong; slower, or too few samples, may have been noise.
    if (outcome->passed || (outcome->ratio <= 0 && !outcome->undecided)) break;
  }
  return finding;
}

absl::StatusOr<ExitCode> RecheckCommand::Run(Context& context) {
  const std::string data = DataFolder(data_);
  FETTLE_ASSIGN_OR_RETURN(const auto store, OpenDataFolder(data, /*create=*/false));
  std::vector<VariantRow> rows;
  FETTLE_RETURN_IF_ERROR(store->Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(
        const std::vector<VariantRow> list,
        ListVariants(db, {task_, target_, "", variant_status::kAccepted}, 0, "", kMostVariants));
    for (const VariantRow& row : list) {
      FETTLE_ASSIGN_OR_RETURN(std::optional<VariantRow> whole, FindVariant(db, row.id));
      if (whole.has_value()) rows.push_back(*std::move(whole));
    }
    return absl::OkStatus();
  }));
  FETTLE_ASSIGN_OR_RETURN(LocalLab lab, LocalLab::Open(local_));
  std::vector<Finding> findings;
  std::size_t demoted = 0, unchecked = 0;
  for (const VariantRow& row : rows) {
    if (context.stop.stop_requested())
      return absl::CancelledError("stopped; what was demoted so far stays demoted");
    FETTLE_ASSIGN_OR_RETURN(Finding finding, Check(context, lab, *store, row));
    if (finding.state == "demoted") ++demoted;
    if (finding.state == "not checked") ++unchecked;
    if (finding.state == "demoted" && !dry_run_) {
      FETTLE_RETURN_IF_ERROR(store->Write([&](Connection& db) {
        return SetVariantStatus(db, finding.variant, variant_status::kDemoted,
                                "recheck: " + finding.reason);
      }));
    }
    findings.push_back(std::move(finding));
  }
  Print(context, findings);
  if (demoted > 0) return ExitCode::kNo;
  return !findings.empty() && unchecked == findings.size() ? ExitCode::kUnavailable : ExitCode::kOk;
}

void RecheckCommand::Print(Context& context, const std::vector<Finding>& findings) const {
  if (json_) {
    json list = json::array();
    for (const Finding& finding : findings) {
      list.push_back({{"variant", finding.variant},
                      {"task", finding.task},
                      {"target", finding.target},
                      {"state", finding.state},
                      {"reason", finding.reason},
                      {"ratio_before", finding.before},
                      {"ratio", finding.now},
                      {"ratio_low", finding.now_low},
                      {"objects_equal", finding.objects_equal},
                      {"objects_different", finding.objects_different},
                      {"dry_run", dry_run_}});
    }
    context.terminal.Print(list.dump(2, ' ', false, kReplaceInvalid));
    return;
  }
  if (findings.empty()) context.terminal.Print("no accepted variants");
  for (const Finding& finding : findings) {
    std::string line = fmt::format("{} ({} on {}): {}", finding.variant, finding.task,
                                   finding.target, finding.state);
    if (finding.now > 0 && finding.state != "not checked")
      line +=
          fmt::format(", {:.3f} times, {:.3f} when it was accepted", finding.now, finding.before);
    if (finding.objects_different > 0) line += "; the compiler makes other code than then";
    if (!finding.reason.empty()) line += ": " + finding.reason;
    context.terminal.PrintFolded(Printable(line));
  }
}

}  // namespace

std::unique_ptr<Subcommand> MakeRecheckCommand() { return std::make_unique<RecheckCommand>(); }

}  // namespace fettle
