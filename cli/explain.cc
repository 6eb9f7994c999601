// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/explain_changes.h"
#include "cli/facts_text.h"
#include "cli/format.h"
#include "cli/local.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "exporter/bundle.h"
#include "exporter/speedup.h"
#include "exporter/verify.h"

namespace fettle {
namespace {

using nlohmann::json;

// What measuring one reduced kernel beside the winner gave.
struct Trial {
  bool works = false;  // It compiled, was right and was measured.
  bool open = false;   // It was right, and the device too unsteady to measure it.
  std::string reason;  // Why it did not.
  double gain = 0;     // The winner's speed over it: what the change that went is worth.
  double low = 0, high = 0;
  json facts;  // Of its builds.

  ChangeWorth worth() const { return open ? ChangeWorth::kUnclear : WorthOf(works, low, high); }
};

class ExplainCommand final : public Subcommand {
 public:
  std::string name() const override { return "explain"; }
  std::string summary() const override { return "find which changes make a variant faster"; }
  std::string details() const override {
    return "Takes the changes between a variant and what it was measured against back, one at a\n"
           "time, verifies and measures what is left beside the variant on this machine, and "
           "drops\n"
           "every change without which the gain stays. Prints the smallest diff that keeps it.\n"
           "Exit code: 0 explained, 3 something could not be measured now (it stays).";
  }
  void Declare(FlagSet& flags) override {
    flags.Positional("VARIANT", &variant_, "variant id, or a bundle folder with one variant");
    flags.Flag("--declared", "", &declared_,
               "against the task's declared baseline, not the denominator");
    flags.Flag("--json", "", &json_, "print JSON");
    connection_.Declare(flags);
    local_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override;

 private:
  absl::StatusOr<BundleFiles> Files();
  absl::StatusOr<Trial> Try(Context& context, LocalLab& lab, const Task& task, const WorkUnit& like,
                            const KernelUnderTest& winner, KernelUnderTest reduced);
  absl::StatusOr<Trial> TryOnce(Context& context, LocalLab& lab, const Task& task,
                                const WorkUnit& like, const KernelUnderTest& winner,
                                KernelUnderTest reduced);
  ExitCode Report(Context& context, const std::vector<VariantChange>& changes,
                  const std::vector<Trial>& trials, const std::vector<bool>& kept,
                  const json& before, const json& after) const;

  std::string variant_;
  bool declared_ = false, json_ = false;
  ConnectionFlags connection_;
  LocalFlags local_;
};

absl::StatusOr<BundleFiles> ExplainCommand::Files() {
  std::error_code error;
  if (std::filesystem::is_directory(variant_, error)) return ReadBundle(variant_);
  FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
  FETTLE_ASSIGN_OR_RETURN(const v1::Variant variant, client->GetVariant(variant_));
  v1::ExportBundleRequest request;
  request.add_variant_ids(variant.id());
  FETTLE_ASSIGN_OR_RETURN(const std::string bytes, client->ExportBundle(request));
  return UnpackBundle(bytes);
}

absl::StatusOr<Trial> ExplainCommand::Try(Context& context, LocalLab& lab, const Task& task,
                                          const WorkUnit& like, const KernelUnderTest& winner,
                                          KernelUnderTest reduced) {
  FETTLE_ASSIGN_OR_RETURN(const Trial first, TryOnce(context, lab, task, like, winner, reduced));
  return first.open ? TryOnce(context, lab, task, like, winner, std::move(reduced)) : first;
}

absl::StatusOr<Trial> ExplainCommand::TryOnce(Context& context, LocalLab& lab, const Task& task,
                                              const WorkUnit& like, const KernelUnderTest& winner,
                                              KernelUnderTest reduced) {
  WorkUnit unit = like;
  reduced.digest = CandidateDigest(task.digest(), like.target, reduced.kernel, reduced.values);
  unit.id = "explain-" + reduced.digest.substr(0, 16);
  unit.candidate = std::move(reduced);
  unit.denominator = winner;
  unit.seed = DrawSeed();
  unit.held_out_seed = DrawSeed();
  FETTLE_ASSIGN_OR_RETURN(const UnitResult result, lab.Run(context, std::move(unit)));
  Trial trial;
  trial.facts = json::array();
  for (const BuildRecord& build : result.builds) trial.facts.push_back(build.facts);
  if (result.verdict.has_value()) {
    trial.open = NotMeasured(*result.verdict);
    trial.reason = fmt::format("{}: {}", std::string(VerdictName(result.verdict->verdict)),
                               result.verdict->message);
  } else if (!result.measurement.has_value()) {
    trial.reason = "it was not measured";
  } else {
    const Speedup speedup = SummarizeSpeedup(*result.measurement);
    if (NotMeasured(speedup.verdict)) {
      trial.open = true;
      trial.reason = "UNMEASURABLE: " + speedup.verdict.message;
      return trial;
    }
    trial.works = true;
    // Measured as the reduced kernel over the winner.
    trial.gain = 1 / speedup.ratio;
    trial.low = 1 / speedup.high;
    trial.high = 1 / speedup.low;
  }
  return trial;
}

absl::StatusOr<ExitCode> ExplainCommand::Run(Context& context) {
  FETTLE_ASSIGN_OR_RETURN(const BundleFiles files, Files());
  FETTLE_RETURN_IF_ERROR(RequireWholeBundle(files, "explain " + variant_).status());
  FETTLE_ASSIGN_OR_RETURN(const LoadedBundle bundle, LoadBundle(files));
  if (bundle.parts->variants.size() != 1) {
    return absl::InvalidArgumentError(
        "the bundle holds several variants; export the one that is meant");
  }
  const VariantProvenance& variant = bundle.parts->variants.front();
  FETTLE_ASSIGN_OR_RETURN(Rerun rerun, MakeRerun(variant, files, DrawSeed(), DrawSeed()));
  const KernelUnderTest winner = rerun.unit.candidate;
  KernelUnderTest parent = rerun.unit.denominator;
  const Task& task = *bundle.model.task;
  if (declared_) {
    parent.kernel = task.baseline();
    parent.values = task.baseline().values;
  }
  const std::vector<VariantChange> changes = ChangesBetween(parent, winner);
  if (changes.empty()) {
    context.terminal.Print("the variant and its parent are the same kernel");
    return ExitCode::kOk;
  }
  FETTLE_ASSIGN_OR_RETURN(LocalLab lab, LocalLab::Open(local_));
  FETTLE_RETURN_IF_ERROR(lab.blobs->Put(rerun.task_blob_bytes).status());
  std::vector<bool> kept(changes.size(), true);
  std::vector<Trial> trials(changes.size());
  for (std::size_t i = 0; i < changes.size(); ++i) {
    context.terminal.Note(
        Printable(fmt::format("without {} ({} of {})", changes[i].label, i + 1, changes.size())));
    std::vector<bool> without = kept;
    without[i] = false;
    FETTLE_ASSIGN_OR_RETURN(trials[i], Try(context, lab, task, rerun.unit, winner,
                                           ApplyChanges(parent, winner, changes, without)));
    if (trials[i].worth() == ChangeWorth::kNotNeeded) kept = without;
  }
  // Facts of the parent itself, before, and of what is left, after.
  FETTLE_ASSIGN_OR_RETURN(const Trial before, Try(context, lab, task, rerun.unit, winner, parent));
  FETTLE_ASSIGN_OR_RETURN(const Trial after, Try(context, lab, task, rerun.unit, winner,
                                                 ApplyChanges(parent, winner, changes, kept)));
  trials.push_back(before);
  trials.push_back(after);
  return Report(context, changes, trials, kept, before.facts, after.facts);
}

ExitCode ExplainCommand::Report(Context& context, const std::vector<VariantChange>& changes,
                                const std::vector<Trial>& trials, const std::vector<bool>& kept,
                                const json& before, const json& after) const {
  Terminal& terminal = context.terminal;
  json list = json::array();
  const Trial& whole = trials[changes.size()];
  const Trial& rest = trials[changes.size() + 1];
  const ExitCode answer =
      std::any_of(trials.begin(), trials.end(), [](const Trial& trial) { return trial.open; })
          ? ExitCode::kUnavailable
          : ExitCode::kOk;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    list.push_back({{"change", changes[i].label},
                    {"kept", static_cast<bool>(kept[i])},
                    {"worth", ChangeWorthName(trials[i].worth())},
                    {"gain", trials[i].gain},
                    {"gain_low", trials[i].low},
                    {"gain_high", trials[i].high},
                    {"without_it", trials[i].works ? "" : trials[i].reason},
                    {"diff", changes[i].text}});
  }
  if (json_) {
    terminal.Print(json{
        {"changes", list},
        {"parent_gain", whole.gain},
        {"smallest_gain", rest.gain},
        {"facts_before", before},
        {"facts_after",
         after}}.dump(2, ' ', false, kReplaceInvalid));
    return answer;
  }
  terminal.PrintFolded(
      whole.works ? fmt::format("variant over its parent: {}",
                                FormatInterval(whole.gain, whole.low, whole.high))
                  : Printable("its parent could not be measured beside it: " + whole.reason));
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const std::string worth = trials[i].works
                                  ? FormatInterval(trials[i].gain, trials[i].low, trials[i].high)
                                  : "without it: " + trials[i].reason.substr(0, 120);
    terminal.PrintFolded(Printable(
        fmt::format("{:<10} {}: {}", ChangeWorthName(trials[i].worth()), changes[i].label, worth)));
  }
  terminal.PrintFolded(rest.works ? fmt::format("the variant over the smallest diff: {}",
                                                FormatInterval(rest.gain, rest.low, rest.high))
                                  : Printable("the smallest diff does not stand: " + rest.reason));
  terminal.Print("smallest diff that keeps the gain:");
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (!kept[i]) continue;
    terminal.PrintFolded(Printable("@@ " + changes[i].label));
    if (!changes[i].text.empty()) terminal.Raw(Printable(changes[i].text));
  }
  for (const auto& [title, facts] :
       {std::pair{"facts before:", &before}, std::pair{"facts after:", &after}}) {
    for (const json& one : *facts) {
      if (!one.is_object() || one.empty()) continue;
      terminal.Print(title);
      terminal.Raw(FactsText(one, terminal.width()));
    }
  }
  return answer;
}

}  // namespace

std::unique_ptr<Subcommand> MakeExplainCommand() { return std::make_unique<ExplainCommand>(); }

}  // namespace fettle
