// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/format.h"
#include "cli/verify_bundle.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace fettle {
namespace {

using nlohmann::json;

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
    flags.Flag("--json", "", &json_, "print JSON");
    local_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const BundleFiles files, ReadBundle(bundle_));
    const BundleReport report = VerifyBundle(files);
    std::vector<RerunReport> reruns;
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
      terminal.Print(Printable(fmt::format("{}: {}", problem.path, problem.message)));
    }
    if (!report.problems.empty()) {
      terminal.Print(fmt::format("{}: NOT whole: {} problem{}{}", bundle_, report.problems.size(),
                                 report.problems.size() == 1 ? "" : "s",
                                 rerun_ ? "; nothing was rerun" : ""));
      return;
    }
    terminal.Print(fmt::format("{}: whole: {} files, {} variant{}, {} earlier rerun{}", bundle_,
                               report.files, report.variants.size(),
                               report.variants.size() == 1 ? "" : "s", report.reruns,
                               report.reruns == 1 ? "" : "s"));
    for (const RerunReport& rerun : reruns) {
      const RerunOutcome& outcome = rerun.outcome;
      if (!rerun.skipped.empty()) {
        terminal.Print(fmt::format("variant {}: not rerun: {}", rerun.variant, rerun.skipped));
        continue;
      }
      terminal.Print(Printable(fmt::format(
          "variant {}: {}", rerun.variant,
          outcome.passed
              ? fmt::format("verified again, {}",
                            FormatInterval(outcome.ratio, outcome.ratio_low, outcome.ratio_high))
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
                      {"skipped", rerun.skipped},
                      {"passed", rerun.outcome.passed},
                      {"reason", rerun.outcome.reason},
                      {"ratio", rerun.outcome.ratio},
                      {"ratio_low", rerun.outcome.ratio_low},
                      {"ratio_high", rerun.outcome.ratio_high},
                      {"objects_equal", rerun.outcome.objects_equal},
                      {"objects_different", rerun.outcome.objects_different}});
    }
    context.terminal.Print(json{
        {"bundle", bundle_},
        {"whole", report.problems.empty()},
        {"files", report.files},
        {"problems", problems},
        {"reruns", list}}.dump(2, ' ', false, kReplaceInvalid));
  }

  std::string bundle_;
  bool rerun_ = false;
  bool json_ = false;
  LocalFlags local_;
};

}  // namespace

absl::StatusOr<std::vector<RerunReport>> RerunBundle(Context& context, const LocalFlags& flags,
                                                     const std::string& path,
                                                     const BundleFiles& files,
                                                     const BundleReport& report) {
  FETTLE_ASSIGN_OR_RETURN(LocalLab lab, LocalLab::Open(flags));
  std::vector<RerunReport> reruns;
  for (const VariantProvenance& variant : report.variants) {
    RerunReport entry{.variant = variant.id, .skipped = "", .outcome = {}};
    if (!CanRun(*lab.runner, variant.target)) {
      entry.skipped = fmt::format("no device for {} here", variant.target);
      reruns.push_back(std::move(entry));
      continue;
    }
    FETTLE_ASSIGN_OR_RETURN(Rerun rerun, MakeRerun(variant, files, DrawSeed(), DrawSeed()));
    FETTLE_RETURN_IF_ERROR(lab.blobs->Put(rerun.task_blob_bytes).status());
    FETTLE_ASSIGN_OR_RETURN(const UnitResult result, lab.Run(context, std::move(rerun.unit)));
    entry.outcome = JudgeRerun(variant, result);
    FETTLE_RETURN_IF_ERROR(AddRerun(path, entry.outcome.evidence.dump(-1, ' ', false, kReplaceInvalid)));
    reruns.push_back(std::move(entry));
  }
  return reruns;
}

std::unique_ptr<Subcommand> MakeVerifyCommand() { return std::make_unique<VerifyCommand>(); }

}  // namespace fettle
