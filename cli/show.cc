// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <fmt/format.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/report.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "proto/wire_json.h"

namespace fettle {
namespace {

using nlohmann::json;

void Section(std::string& text, const std::string& title, const std::string& body) {
  if (!body.empty()) text += fmt::format("\n{}\n{}", title, body);
}

// "name: value" lines of an object's scalars.
std::string Scalars(const json& object) {
  std::string text;
  if (!object.is_object()) return text;
  for (const auto& [name, value] : object.items()) {
    if (value.is_structured() || value.is_null()) continue;
    const std::string shown =
        value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, kReplaceInvalid);
    if (!shown.empty()) text += fmt::format("  {}: {}\n", name, shown);
  }
  return Printable(text);
}

std::string SpeedLines(const v1::Variant& variant) {
  std::string text =
      fmt::format("  over its denominator: {}\n",
                  FormatInterval(variant.ratio(), variant.ratio_low(), variant.ratio_high()));
  text += fmt::format("  over the declared baseline: {}\n", FormatRatio(variant.ratio_declared()));
  text += variant.is_tuned_baseline()
              ? "  this variant is the tuned baseline\n"
              : fmt::format("  over the tuned baseline: {}\n", FormatRatio(variant.ratio_tuned()));
  text += fmt::format("  of the roofline: {}\n", FormatPercent(variant.roofline_fraction()));
  return text;
}

std::string BuildLines(const json& builds) {
  std::string text;
  if (!builds.is_array()) return text;
  for (const json& build : builds) {
    std::string entries;
    const json& names = MemberOf(build, "entries");
    for (const json& entry : names) {
      if (entry.is_string()) entries += (entries.empty() ? "" : ", ") + entry.get<std::string>();
    }
    text += fmt::format("  {} by {}, object {}\n", entries, TextOf(build, "compiler", "?"),
                        ShortId(TextOf(build, "code_object", "none")));
    std::string facts;
    if (MemberOf(build, "facts").is_object()) {
      for (const auto& [name, value] : MemberOf(build, "facts").items()) {
        if (!value.is_structured())
          facts += fmt::format(" {}={}", name, value.dump(-1, ' ', false, kReplaceInvalid));
      }
    }
    if (!facts.empty()) text += "   " + facts + "\n";
  }
  return Printable(text);
}

std::string ShowVariant(const v1::Variant& variant, int width, bool source) {
  const json provenance = ParseDocument(variant.provenance_json());
  std::string text = fmt::format("variant {}\n  task {} for {}, {}\n  {}\n  job {}, candidate {}\n",
                                 variant.id(), variant.task_name(), variant.target(),
                                 variant.status(), FormatValuesText(variant.values_json()),
                                 variant.job_id(), ShortId(variant.candidate_digest()));
  Section(text, "Speed-up", SpeedLines(variant));
  Section(text, "Timing (confirmation)",
          MeasurementTable(MemberOf(provenance, "measurement"), width,
                           MemberOf(provenance, "environment")));
  Section(text, "Correctness", VerificationTable(MemberOf(provenance, "verification"), width));
  Section(text, "Bugs looked for", BugCheckLines(MemberOf(provenance, "verification")));
  Section(text, "Builds", BuildLines(MemberOf(provenance, "builds")));
  Section(text, "Device", Scalars(MemberOf(provenance, "device")));
  Section(text, "Proposer", Scalars(MemberOf(provenance, "proposer")));
  Section(text, "Confirmation", Scalars(MemberOf(provenance, "confirmation")));
  Section(text, "Environment", Scalars(MemberOf(provenance, "environment")));
  text = Folded(Printable(text), width);
  if (source) {
    Section(text, "Source", Printable(TextOf(MemberOf(provenance, "kernel"), "source")) + "\n");
  }
  return text;
}

std::string ShowCandidate(const v1::Candidate& candidate, int width, bool source) {
  std::string text = fmt::format("candidate {} (#{} of job {})\n  {}\n  proposer {} {}\n",
                                 candidate.digest(), candidate.ordinal(), candidate.job_id(),
                                 FormatValuesText(candidate.values_json()), candidate.proposer(),
                                 candidate.technique());
  const json verdict = ParseDocument(candidate.verdict_json());
  Section(text, "Verdict",
          verdict.is_null() ? "  under way\n" : "  " + VerdictText(verdict) + "\n");
  if (!TextOf(verdict, "case").empty()) {
    text +=
        fmt::format("  to see it here: fettle reproduce {} --task FOLDER\n", candidate.digest());
  }
  Section(text, "Timing", MeasurementTable(ParseDocument(candidate.measurement_json()), width));
  Section(text, "Correctness",
          VerificationTable(ParseDocument(candidate.verification_json()), width));
  Section(text, "Bugs looked for", BugCheckLines(ParseDocument(candidate.verification_json())));
  const json builds = ParseDocument(candidate.builds_json());
  Section(text, "Builds", BuildLines(builds));
  std::string diagnostics;
  if (builds.is_array()) {
    std::set<std::string> seen;
    for (const json& build : builds) {
      const std::string lines = DiagnosticsText(MemberOf(build, "diagnostics"));
      if (seen.insert(lines).second) diagnostics += lines;
    }
  }
  Section(text, "Diagnostics", diagnostics);
  Section(text, "Rationale",
          candidate.rationale().empty() ? "" : "  " + candidate.rationale() + "\n");
  text = Folded(Printable(text), width);
  if (source) {
    Section(text, "Source",
            Printable(TextOf(ParseDocument(candidate.kernel_json()), "source")) + "\n");
  }
  return text;
}

class ShowCommand final : public Subcommand {
 public:
  std::string name() const override { return "show"; }
  std::string summary() const override { return "show a variant's or candidate's evidence"; }
  void Declare(FlagSet& flags) override {
    flags.Positional("VARIANT", &id_, "variant id (a prefix is enough), or with --job a candidate");
    flags.Flag("--job", "JOB", &job_, "job of the candidate");
    flags.Flag("--source", "", &source_, "with the kernel's source");
    flags.Flag("--json", "", &json_, "print JSON with the whole provenance");
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
    const int width = context.terminal.width();
    if (!job_.empty()) {
      FETTLE_ASSIGN_OR_RETURN(const v1::Candidate candidate, client->GetCandidate(job_, id_));
      context.terminal.Raw(json_ ? ToJson(candidate).dump(2, ' ', false, kReplaceInvalid) + "\n"
                                 : ShowCandidate(candidate, width, source_));
      return ExitCode::kOk;
    }
    FETTLE_ASSIGN_OR_RETURN(const v1::Variant variant, client->GetVariant(id_));
    context.terminal.Raw(json_ ? ToJson(variant).dump(2, ' ', false, kReplaceInvalid) + "\n"
                               : ShowVariant(variant, width, source_));
    return ExitCode::kOk;
  }

 private:
  std::string id_, job_;
  bool source_ = false;
  bool json_ = false;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeShowCommand() { return std::make_unique<ShowCommand>(); }

}  // namespace fettle
