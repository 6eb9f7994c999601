// SPDX-License-Identifier: Apache-2.0
#include "exporter/bundle_runs.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/json_text.h"
#include "core/status_macros.h"
#include "exporter/bundle_model.h"
#include "exporter/verify.h"

namespace fettle {
namespace {

using nlohmann::json;

// Labels and sizes of a task's cases for a target.
absl::StatusOr<std::map<std::string, std::string>> CasesFor(const Task& task,
                                                            const std::string& target) {
  FETTLE_ASSIGN_OR_RETURN(const std::vector<BoundCase> cases, OwnCases(task, target));
  std::map<std::string, std::string> sizes;
  for (const BoundCase& bound_case : cases) {
    std::string& text = sizes[bound_case.label];
    for (const BoundDim& dim : bound_case.dims) {
      text += fmt::format("{}={} ", dim.name, fmt::join(dim.values, ","));
    }
  }
  return sizes;
}

// Why the evidence does not show that the variant ran on the target; empty: it does.
absl::StatusOr<std::string> Fault(const ProvenVariant& variant, const std::string& target,
                                  const UnitResult& result, bool emulated) {
  // The guards are of the cases that the variant was accepted with: the same must have run.
  FETTLE_ASSIGN_OR_RETURN(const auto accepted, CasesFor(*variant.task, variant.provenance->target));
  FETTLE_ASSIGN_OR_RETURN(const auto here, CasesFor(*variant.task, target));
  if (accepted != here) return "the task has other cases for this target";
  FETTLE_ASSIGN_OR_RETURN(const std::vector<BoundCase> cases, OwnCases(*variant.task, target));
  for (const BoundCase& bound_case : cases) {
    const auto& reports = result.verification->cases;
    const auto report = std::find_if(reports.begin(), reports.end(), [&](const CaseReport& one) {
      return one.case_label == bound_case.label && (one.passed || one.unsupported);
    });
    if (report == reports.end()) return fmt::format("case {} was not verified", bound_case.label);
    FETTLE_ASSIGN_OR_RETURN(const bool applies, AppliesTo(variant, bound_case));
    if (applies != report->passed)
      return fmt::format("case {} applies to one target only", bound_case.label);
    if (emulated || !applies || !bound_case.label.starts_with("timed")) continue;
    const bool measured =
        std::any_of(result.measurement->cases.begin(), result.measurement->cases.end(),
                    [&](const CaseMeasurement& one) {
                      return one.case_label == bound_case.label && !one.blocks.empty();
                    });
    if (!measured) return fmt::format("case {} was not measured", bound_case.label);
  }
  return "";
}

absl::StatusOr<BundleRun> ReadRun(const std::string& path, const std::string& bytes,
                                  std::span<const ProvenVariant> variants) {
  const auto refuse = [&](const std::string& reason) {
    return absl::FailedPreconditionError(
        fmt::format("take the rerun {}{}: {}", kRunFolder, path, reason));
  };
  const json document = ParseJson(bytes);
  const auto text = [&](const char* key) {
    const json value = document.is_object() ? document.value(key, json()) : json();
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  BundleRun run{.path = path,
                .variant = text("variant"),
                .target = text("target"),
                .status = text("status"),
                .device = {},
                .verification = {},
                .measurement = {},
                .builds = {}};
  const auto variant =
      std::find_if(variants.begin(), variants.end(),
                   [&](const ProvenVariant& one) { return one.provenance->id == run.variant; });
  if (variant == variants.end()) {
    return refuse(fmt::format("its variant '{}' is not in the bundle", run.variant));
  }
  if (run.target == variant->provenance->target) {
    return refuse("it is of the target that the variant was accepted on");
  }
  const absl::StatusOr<UnitResult> result =
      UnitResultFromJson(document.value("result", json::object()));
  if (!result.ok()) return refuse(std::string(result.status().message()));
  const RerunOutcome outcome = JudgeRerun(*variant->provenance, run.target, *result);
  if (!outcome.passed) return refuse("it did not pass: " + outcome.reason);
  if (outcome.evidence != document) return refuse("its figures do not follow from its samples");
  FETTLE_ASSIGN_OR_RETURN(const std::string fault,
                          Fault(*variant, run.target, *result, outcome.emulated));
  if (!fault.empty()) return refuse(fault);
  if (result->measurement.has_value() && !outcome.emulated) {
    run.measurement = *result->measurement;
    run.ratio = outcome.ratio;
    run.ratio_low = outcome.ratio_low;
    run.ratio_high = outcome.ratio_high;
    const json model =
        run.measurement.device.is_object() ? run.measurement.device.value("model", json()) : json();
    if (model.is_string()) run.device = model.get<std::string>();
  }
  run.verification = *result->verification;
  for (const BuildRecord& build : result->builds) run.builds.insert({build.key, build.code_object});
  return run;
}

}  // namespace

absl::StatusOr<std::vector<BundleRun>> ReadRuns(const std::map<std::string, std::string>& documents,
                                                std::span<const ProvenVariant> variants) {
  std::vector<BundleRun> runs;
  for (const auto& [path, bytes] : documents) {
    FETTLE_ASSIGN_OR_RETURN(BundleRun run, ReadRun(path, bytes, variants));
    runs.push_back(std::move(run));
  }
  return runs;
}

const BundleRun* FindRun(const std::vector<BundleRun>& runs, const std::string& variant,
                         const std::string& target, const std::string& key,
                         const std::string& sha256) {
  const BundleRun* found = nullptr;
  for (const BundleRun& run : runs) {
    if (run.variant != variant || run.target != target || !run.builds.contains({key, sha256}))
      continue;
    if (found == nullptr || run.status == "run") found = &run;
  }
  return found;
}

}  // namespace fettle
