// SPDX-License-Identifier: Apache-2.0
#include <map>

#include <fmt/format.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/text_diff.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "proto/wire_json.h"

namespace fettle {
namespace {

using nlohmann::json;

// One side of a comparison.
struct Side {
  std::string name;
  json kernel, values;
};

// The files of a kernel block by name, the main source first named by `source_name`.
std::map<std::string, std::string> FilesOf(const json& kernel) {
  std::map<std::string, std::string> files;
  const json& headers = MemberOf(kernel, "headers");
  if (headers.is_array()) {
    for (const json& header : headers) files[TextOf(header, "name")] = TextOf(header, "text");
  }
  files[TextOf(kernel, "source_name", "kernel.cu")] = TextOf(kernel, "source");
  return files;
}

json ChangedValues(const Side& from, const Side& to) {
  json changes = json::object();
  for (const json* values : {&from.values, &to.values}) {
    if (!values->is_object()) continue;
    for (const auto& [name, value] : values->items()) {
      const json& before = MemberOf(from.values, name);
      const json& after = MemberOf(to.values, name);
      if (before != after) changes[name] = {{"from", before}, {"to", after}};
    }
  }
  return changes;
}

std::string SourceDiff(const Side& from, const Side& to) {
  std::map<std::string, std::string> before = FilesOf(from.kernel), after = FilesOf(to.kernel);
  std::map<std::string, bool> names;
  for (const auto& [name, text] : before) names[name] = true;
  for (const auto& [name, text] : after) names[name] = true;
  std::string text;
  for (const auto& [name, unused] : names) {
    text += UnifiedDiff(fmt::format("{}/{}", from.name, name), before[name],
                        fmt::format("{}/{}", to.name, name), after[name]);
  }
  return text;
}

class DiffCommand final : public Subcommand {
 public:
  std::string name() const override { return "diff"; }
  std::string summary() const override { return "compare a variant with what it came from"; }
  void Declare(FlagSet& flags) override {
    flags.Positional("VARIANT", &id_, "variant id; a prefix is enough");
    flags.Flag("--against", "WHAT", &against_,
               "baseline (default), denominator, parent, or another variant's id");
    flags.Flag("--json", "", &json_, "print JSON");
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
    FETTLE_ASSIGN_OR_RETURN(const v1::Variant variant, client->GetVariant(id_));
    const json provenance = ParseDocument(variant.provenance_json());
    const Side to{ShortId(variant.id()), MemberOf(provenance, "kernel"),
                  ParseDocument(variant.values_json())};
    FETTLE_ASSIGN_OR_RETURN(const Side from, OtherSide(*client, variant, provenance));
    const json values = ChangedValues(from, to);
    const bool plan = MemberOf(from.kernel, "launches") != MemberOf(to.kernel, "launches") ||
                      MemberOf(from.kernel, "workspace") != MemberOf(to.kernel, "workspace");
    const std::string source = SourceDiff(from, to);
    if (json_) {
      context.terminal.Print(json{
          {"from", from.name},
          {"to", to.name},
          {"values", values},
          {"plan_changed", plan},
          {"source_diff",
           source}}.dump(2, ' ', false, kReplaceInvalid));
      return ExitCode::kOk;
    }
    for (const auto& [name, change] : values.items()) {
      context.terminal.Print(Printable(
          fmt::format("{}: {} -> {}", name, change["from"].dump(-1, ' ', false, kReplaceInvalid),
                      change["to"].dump(-1, ' ', false, kReplaceInvalid))));
    }
    if (plan) {
      context.terminal.Print("launch plan:");
      context.terminal.Raw(Printable(UnifiedDiff(
          from.name + "/launches",
          MemberOf(from.kernel, "launches").dump(2, ' ', false, kReplaceInvalid) + "\n",
          to.name + "/launches",
          MemberOf(to.kernel, "launches").dump(2, ' ', false, kReplaceInvalid) + "\n")));
    }
    context.terminal.Raw(Printable(source));
    if (values.empty() && !plan && source.empty()) {
      context.terminal.Note(fmt::format("no difference from {}", from.name));
    }
    return ExitCode::kOk;
  }

 private:
  absl::StatusOr<Side> OtherSide(OptimizerClient& client, const v1::Variant& variant,
                                 const json& provenance) {
    if (against_ == "baseline" || against_ == "denominator") {
      const json& side = MemberOf(provenance, against_);
      return Side{against_, MemberOf(side, "kernel"), MemberOf(side, "values")};
    }
    if (against_ == "parent") {
      const json& parents = MemberOf(provenance, "parents");
      if (!parents.is_array() || parents.empty() || !parents[0].is_string()) {
        const json& baseline = MemberOf(provenance, "baseline");
        return Side{"baseline", MemberOf(baseline, "kernel"), MemberOf(baseline, "values")};
      }
      const std::string digest = parents[0].get<std::string>();
      FETTLE_ASSIGN_OR_RETURN(const v1::Candidate parent,
                              client.GetCandidate(variant.job_id(), digest));
      return Side{ShortId(digest), ParseDocument(parent.kernel_json()),
                  ParseDocument(parent.values_json())};
    }
    FETTLE_ASSIGN_OR_RETURN(const v1::Variant other, client.GetVariant(against_));
    return Side{ShortId(other.id()), MemberOf(ParseDocument(other.provenance_json()), "kernel"),
                ParseDocument(other.values_json())};
  }

  std::string id_;
  std::string against_ = "baseline";
  bool json_ = false;
  ConnectionFlags connection_;
};

}  // namespace

std::unique_ptr<Subcommand> MakeDiffCommand() { return std::make_unique<DiffCommand>(); }

}  // namespace fettle
