// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/format.h"
#include "cli/task_folder.h"
#include "cli/verify_bundle.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "exporter/signature.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxKeyBytes = 1 << 20;

bool CanRun(const UnitRunner& runner, const std::string& target) {
  for (const DeviceInfo& device : runner.devices()) {
    if (device.target.name == target) return true;
  }
  return false;
}

class VerifyCommand final : public Subcommand {
 public:
  std::string name() const override { return "verify"; }
  std::string summary() const override {
    return "check a bundle; with --rerun repeat its evidence";
  }
  std::string details() const override {
    return "Exit code: 0 the bundle is whole (and the rerun agrees), 1 it is not, 3 no variant of\n"
           "it can run on this machine.";
  }
  void Declare(FlagSet& flags) override {
    flags.Positional("BUNDLE", &bundle_, "bundle folder").completes = Completes::kFolder;
    flags.Flag("--rerun", "", &rerun_,
               "repeat verification and measurement here, and add the evidence to the bundle");
    flags.Flag("--rebuild", "", &rebuild_,
               "compile the sources again and compare the objects; --rerun does it too");
    flags.Flag("--signer", "FILE", &signer_, "public key that must have signed the bundle (PEM)")
        .completes = Completes::kFile;
    flags.Flag("--json", "", &json_, "print JSON");
    local_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const BundleFiles files, ReadBundle(bundle_));
    BundleVerifyOptions options;
    if (!signer_.empty()) {
      FETTLE_ASSIGN_OR_RETURN(options.trusted_signer, ReadFile(signer_, kMaxKeyBytes));
      if (KeyId(options.trusted_signer).empty()) {
        return absl::InvalidArgumentError(
            fmt::format("--signer {}: it holds no Ed25519 public key in PEM form", signer_));
      }
    }
    BundleReport report = VerifyBundle(files, options);
    std::vector<RerunReport> reruns;
    if ((rebuild_ || rerun_) && report.problems.empty()) {
      FETTLE_ASSIGN_OR_RETURN(rebuilt_, RebuildBundle(context, local_, files));
      for (const std::string& path : rebuilt_.different) {
        report.problems.push_back(
            {path, "the sources compile to other bytes with the same compiler"});
      }
    }
    if (rerun_ && report.problems.empty()) {
      FETTLE_ASSIGN_OR_RETURN(reruns, RerunBundle(context, local_, bundle_, files, report));
    }
    json_ ? PrintJson(context, report, reruns) : PrintText(context, report, reruns);
    return Answer(report, reruns);
  }

 private:
  ExitCode Answer(const BundleReport& report, const std::vector<RerunReport>& reruns) const {
    if (!report.problems.empty()) return ExitCode::kNo;
    std::size_t skipped = 0;
    for (const RerunReport& rerun : reruns) {
      if (rerun.outcome.undecided) return ExitCode::kUnavailable;
      if (!rerun.skipped.empty()) {
        ++skipped;
      } else if (!rerun.outcome.passed) {
        return ExitCode::kNo;
      }
    }
    return rerun_ && skipped == reruns.size() ? ExitCode::kUnavailable : ExitCode::kOk;
  }

  void PrintText(Context& context, const BundleReport& report,
                 const std::vector<RerunReport>& reruns) const {
    Terminal& terminal = context.terminal;
    for (const BundleProblem& problem : report.problems) {
      terminal.PrintFolded(Printable(fmt::format("{}: {}", problem.path, problem.message)));
    }
    if (!report.problems.empty()) {
      terminal.PrintFolded(
          fmt::format("{}: NOT whole: {} problem{}{}", bundle_, report.problems.size(),
                      report.problems.size() == 1 ? "" : "s", rerun_ ? "; nothing was rerun" : ""));
      return;
    }
    for (const std::string& note : report.notes) terminal.PrintFolded(Printable("note: " + note));
    if (rebuild_ || rerun_) {
      terminal.Print(fmt::format("rebuilt from the sources: {} objects equal", rebuilt_.equal));
      for (const std::string& note : rebuilt_.notes) terminal.PrintFolded(Printable("  " + note));
    }
    terminal.PrintFolded(
        report.signer.empty()
            ? "not signed"
            : fmt::format("signed by {}{}", report.signer,
                          signer_.empty() ? ", which is not checked against a known key (--signer)"
                                          : ", the trusted key"));
    terminal.PrintFolded(fmt::format("{}: whole: {} files, {} variant{}, {} earlier rerun{}",
                                     bundle_, report.files, report.variants.size(),
                                     report.variants.size() == 1 ? "" : "s", report.reruns,
                                     report.reruns == 1 ? "" : "s"));
    for (const RerunReport& rerun : reruns) {
      const RerunOutcome& outcome = rerun.outcome;
      if (!rerun.skipped.empty()) {
        terminal.PrintFolded(fmt::format("variant {} on {}: not rerun: {}", rerun.variant,
                                         rerun.target, rerun.skipped));
        continue;
      }
      terminal.PrintFolded(Printable(fmt::format(
          "variant {} on {}: {}", rerun.variant, rerun.target,
          outcome.emulated ? "verified again under an emulator, whose times do not count"
          : outcome.passed ? "verified again, " + RerunText(rerun)
                           : "FAILED: " + outcome.reason)));
      terminal.Print(fmt::format("  rebuilt code objects: {} equal, {} different",
                                 outcome.objects_equal, outcome.objects_different));
    }
  }

  void PrintJson(Context& context, const BundleReport& report,
                 const std::vector<RerunReport>& reruns) const {
    json problems = json::array(), list = json::array();
    for (const BundleProblem& problem : report.problems) {
      problems.push_back({{"path", problem.path}, {"message", problem.message}});
    }
    for (const RerunReport& rerun : reruns) {
      list.push_back({{"variant", rerun.variant},
                      {"target", rerun.target},
                      {"skipped", rerun.skipped},
                      {"passed", rerun.outcome.passed},
                      {"emulated", rerun.outcome.emulated},
                      {"reason", rerun.outcome.reason},
                      {"ratio", rerun.outcome.ratio},
                      {"ratio_low", rerun.outcome.ratio_low},
                      {"ratio_high", rerun.outcome.ratio_high},
                      {"exported_ratio", rerun.exported},
                      {"exported_low", rerun.exported_low},
                      {"exported_high", rerun.exported_high},
                      {"objects_equal", rerun.outcome.objects_equal},
                      {"objects_different", rerun.outcome.objects_different}});
    }
    context.terminal.Print(json{
        {"bundle", bundle_},
        {"whole", report.problems.empty()},
        {"files", report.files},
        {"problems", problems},
        {"notes", report.notes},
        {"signer", report.signer},
        {"rebuilt",
         {{"equal", rebuilt_.equal}, {"different", rebuilt_.different}, {"notes", rebuilt_.notes}}},
        {"reruns", list}}.dump(2, ' ', false, kReplaceInvalid));
  }

  std::string bundle_;
  std::string signer_;
  bool rerun_ = false, rebuild_ = false;
  bool json_ = false;
  LocalFlags local_;
  RebuildReport rebuilt_;
};

}  // namespace

std::string RerunText(const RerunReport& rerun) {
  const RerunOutcome& now = rerun.outcome;
  std::string text = FormatInterval(now.ratio, now.ratio_low, now.ratio_high);
  if (rerun.exported <= 0) return text;
  text += fmt::format("; the evidence says {}",
                      FormatInterval(rerun.exported, rerun.exported_low, rerun.exported_high));
  if (now.ratio_high < rerun.exported_low || now.ratio_low > rerun.exported_high)
    text += ", and the intervals do not meet";
  return text;
}

absl::StatusOr<std::vector<RerunReport>> RerunBundle(Context& context, const LocalFlags& flags,
                                                     const std::string& path,
                                                     const BundleFiles& files,
                                                     const BundleReport& report) {
  FETTLE_RETURN_IF_ERROR(CanAddRerun(path));  // Before minutes of work whose result would be lost.
  FETTLE_ASSIGN_OR_RETURN(LocalLab lab, LocalLab::Open(flags));
  std::vector<RerunReport> reruns;
  for (const VariantProvenance& variant : report.variants) {
    // The variant's own target, and those that it was only compiled for.
    std::set<std::string> targets = {variant.target};
    for (const nlohmann::json& entry : report.manifest["variants"]) {
      if (entry["id"] != variant.id) continue;
      for (const nlohmann::json& build : entry["builds"]) {
        const std::string target = build["target"].get<std::string>();
        if (CanRun(*lab.runner, target)) targets.insert(target);
      }
    }
    for (const std::string& target : targets) {
      RerunReport entry{.variant = variant.id, .target = target, .skipped = "", .outcome = {}};
      if (target == variant.target) {
        entry.exported = variant.ratio;
        entry.exported_low = variant.ratio_low;
        entry.exported_high = variant.ratio_high;
      }
      if (!CanRun(*lab.runner, target)) {
        entry.skipped = fmt::format("no device for {} here", target);
        reruns.push_back(std::move(entry));
        continue;
      }
      for (int attempt = 0; attempt < 2; ++attempt) {  // Once more where the first leaves it open.
        FETTLE_ASSIGN_OR_RETURN(Rerun rerun,
                                MakeRerun(variant, files, target, DrawSeed(), DrawSeed()));
        FETTLE_RETURN_IF_ERROR(lab.blobs->Put(rerun.task_blob_bytes).status());
        FETTLE_ASSIGN_OR_RETURN(const UnitResult result, lab.Run(context, std::move(rerun.unit)));
        entry.outcome = JudgeRerun(variant, target, result);
        if (!entry.outcome.undecided) break;
      }
      if (entry.outcome.undecided) {  // No evidence of anything.
        entry.skipped = fmt::format("it was right, and how fast could not be told now: {}",
                                    entry.outcome.reason);
      } else {
        FETTLE_RETURN_IF_ERROR(
            AddRerun(path, entry.outcome.evidence.dump(-1, ' ', false, kReplaceInvalid)));
      }
      reruns.push_back(std::move(entry));
    }
  }
  return reruns;
}

std::unique_ptr<Subcommand> MakeVerifyCommand() { return std::make_unique<VerifyCommand>(); }

}  // namespace fettle
