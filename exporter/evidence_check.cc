// SPDX-License-Identifier: Apache-2.0
#include "exporter/evidence_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "compiler/facts/code_facts.h"
#include "core/digest.h"
#include "core/status_macros.h"
#include "core/target.h"
#include "core/work_unit.h"
#include "judge/accept.h"
#include "judge/statistics.h"

namespace fettle {
namespace {

// Seed for binding the cases of a task where only their labels and sizes matter.
constexpr std::uint64_t kBindSeed = 1;
// Largest difference of ln ratio between samples and recorded figures.
constexpr double kRatioTolerance = 1e-6;

absl::Status Refuse(const VariantProvenance& variant, const std::string& reason) {
  return absl::FailedPreconditionError(
      fmt::format("export variant {}: refused: {}", variant.id, reason));
}

bool Near(double a, double b) { return std::fabs(a - b) <= kRatioTolerance; }

absl::StatusOr<std::string> GetBlob(const VariantProvenance& variant, BlobStore& blobs,
                                    const std::string& digest, const char* what) {
  absl::StatusOr<std::string> bytes = blobs.Get(digest);
  if (!bytes.ok()) {
    return absl::Status(bytes.status().code(),
                        fmt::format("export variant {}: refused: {} {}: {}", variant.id, what,
                                    digest, std::string(bytes.status().message())));
  }
  if (Sha256Hex(*bytes) != digest) {
    return absl::DataLossError(fmt::format(
        "export variant {}: refused: {} {}: its bytes were changed", variant.id, what, digest));
  }
  return bytes;
}

absl::StatusOr<std::shared_ptr<const Task>> ReadTask(const VariantProvenance& variant,
                                                     BlobStore& blobs) {
  FETTLE_ASSIGN_OR_RETURN(const std::string blob,
                          GetBlob(variant, blobs, variant.task_blob, "task files"));
  FETTLE_ASSIGN_OR_RETURN(TaskFiles files, UnpackTaskFiles(blob));
  std::vector<TaskProblem> problems;
  auto task = Task::Parse(std::move(files), &problems);
  if (!task.ok()) {
    return Refuse(variant, fmt::format("its task no longer parses: {}",
                                       std::string(task.status().message())));
  }
  if ((*task)->digest() != variant.task_digest) {
    return Refuse(variant, fmt::format("the task was changed: its digest is {}, the evidence is "
                                       "for {}; optimize the changed task anew",
                                       (*task)->digest(), variant.task_digest));
  }
  if (!IsKnownLicense((*task)->license())) {
    return Refuse(variant, fmt::format("unknown licence '{}'; state an SPDX identifier (or "
                                       "LicenseRef-NAME) as `license` in task.yaml",
                                       (*task)->license()));
  }
  return task;
}

absl::StatusOr<TunableValues> ReadValues(const VariantProvenance& variant,
                                         const nlohmann::json& object, const char* whose) {
  TunableValues values;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_number_integer()) {
      return Refuse(variant, fmt::format("{} value of {} is not an integer", whose, name));
    }
    values[name] = value.get<std::int64_t>();
  }
  return values;
}

// The ratio means nothing unless what it is over is what was measured.
absl::Status CheckDenominator(const VariantProvenance& variant, const Task& task) {
  const nlohmann::json denominator =
      variant.document.value("denominator", nlohmann::json::object());
  const nlohmann::json digest = denominator.value("digest", nlohmann::json());
  if (!digest.is_string()) return absl::OkStatus();
  std::vector<TaskProblem> problems;
  FETTLE_ASSIGN_OR_RETURN(const KernelSpec kernel,
                          task.ParseKernelSpec(variant.denominator_kernel, &problems));
  FETTLE_ASSIGN_OR_RETURN(const TunableValues values,
                          ReadValues(variant, variant.denominator_values, "its denominator's"));
  if (digest == CandidateDigest(task.digest(), variant.target, kernel, values))
    return absl::OkStatus();
  return Refuse(variant,
                "its denominator is not the one that was measured: the kernel or its values were "
                "changed");
}

const CaseReport* FindReport(const VerificationReport& report, const std::string& label) {
  for (const CaseReport& entry : report.cases) {
    if (entry.case_label == label) return &entry;
  }
  return nullptr;
}

const CaseMeasurement* FindMeasurement(const Measurement& measurement, const std::string& label) {
  for (const CaseMeasurement& entry : measurement.cases) {
    if (entry.case_label == label) return &entry;
  }
  return nullptr;
}

absl::Status CheckVerification(const VariantProvenance& variant,
                               const std::vector<BoundCase>& cases) {
  if (!variant.verification.passed) return Refuse(variant, "its verification did not pass");
  if (variant.verification.check_mode.starts_with("failed")) {
    return Refuse(variant, fmt::format("the checking runtime found an error: {}",
                                       variant.verification.check_mode));
  }
  for (const auto& [tool, said] : variant.verification.sanitizers) {
    if (said.starts_with("failed")) {
      return Refuse(variant, fmt::format("compute-sanitizer's {} found an error: {}", tool, said));
    }
  }
  for (const BoundCase& bound_case : cases) {
    const CaseReport* report = FindReport(variant.verification, bound_case.label);
    if (report == nullptr) {
      return Refuse(variant, fmt::format("no verification of case {}: the evidence is incomplete; "
                                         "verify it again",
                                         bound_case.label));
    }
    if (!report->passed && !report->unsupported) {
      return Refuse(variant, fmt::format("case {} failed verification", bound_case.label));
    }
  }
  return absl::OkStatus();
}

// The figures of a case must follow from its raw samples.
absl::Status CheckSamples(const VariantProvenance& variant, const CaseMeasurement& entry) {
  const std::vector<double> ratios = judge::BlockLogRatios(entry.blocks);
  bool agree = ratios.size() == entry.block_log_ratios.size();
  double sum = 0;
  for (std::size_t i = 0; agree && i < ratios.size(); ++i) {
    agree = Near(ratios[i], entry.block_log_ratios[i]);
    sum += ratios[i];
  }
  if (agree && !ratios.empty()) {
    agree =
        entry.ratio > 0 && Near(sum / static_cast<double>(ratios.size()), std::log(entry.ratio));
  }
  if (agree) return absl::OkStatus();
  return Refuse(variant, fmt::format("the recorded ratio of case {} does not follow from its raw "
                                     "samples; the evidence was changed",
                                     entry.case_label));
}

absl::Status CheckMeasurement(const ProvenVariant& proven, const std::vector<BoundCase>& timed) {
  const VariantProvenance& variant = *proven.provenance;
  for (const BoundCase& bound_case : timed) {
    FETTLE_ASSIGN_OR_RETURN(const bool supported, AppliesTo(proven, bound_case));
    const CaseMeasurement* entry = FindMeasurement(variant.measurement, bound_case.label);
    if (!supported) continue;
    if (entry == nullptr || entry->blocks.empty()) {
      return Refuse(variant,
                    fmt::format("no measurement of case {}; measure it again", bound_case.label));
    }
    FETTLE_RETURN_IF_ERROR(CheckSamples(variant, *entry));
  }
  // The first confirmation has the widest level, so what was kept at any other passes here too.
  const judge::ConfirmationDecision decision = judge::DecideConfirmation(
      variant.measurement, /*k=*/1, /*aa_spread=*/0, judge::AcceptanceRule{});
  if (decision.record.verdict != Verdict::kWin) {
    return Refuse(variant, fmt::format("its measurement is no win: {}", decision.record.message));
  }
  if (!(variant.ratio_low > 1)) {
    return Refuse(variant, fmt::format("the lower end of its interval is {:.4f}, not above 1",
                                       variant.ratio_low));
  }
  if (!(variant.ratio > 0) || !Near(std::log(variant.ratio), decision.stats.mean)) {
    return Refuse(variant, fmt::format("the recorded ratio {:.6f} is not that of its samples, "
                                       "{:.6f}; the evidence was changed",
                                       variant.ratio, decision.ratio));
  }
  return absl::OkStatus();
}

// Registers, spills, scratch and the rest must be those that the evidence declares.
absl::Status CheckFacts(const VariantProvenance& variant, const ProvenanceBuild& build,
                        const std::string& object) {
  const absl::StatusOr<Target> target = FindTarget(build.target);
  if (!target.ok()) return Refuse(variant, std::string(target.status().message()));
  if (target->vendor == Vendor::kCpu || !build.facts.is_object() || build.facts.empty()) {
    return absl::OkStatus();
  }
  const absl::StatusOr<CodeFacts> facts = ReadFacts(object, build.target);
  if (!facts.ok()) {
    return Refuse(variant, fmt::format("its code object {}: {}", build.code_object,
                                       std::string(facts.status().message())));
  }
  if (ToJson(*facts) == build.facts) return absl::OkStatus();
  return Refuse(variant, fmt::format("the facts recorded of code object {} (registers, spills, "
                                     "scratch, shared memory) are not what its bytes say",
                                     build.code_object));
}

absl::Status CheckBuilds(const ProvenVariant& variant, const std::vector<BoundCase>& cases,
                         BlobStore& blobs) {
  const VariantProvenance& provenance = *variant.provenance;
  for (const ProvenanceBuild& build : provenance.builds) {
    FETTLE_ASSIGN_OR_RETURN(const std::string object,
                            GetBlob(provenance, blobs, build.code_object, "code object"));
    FETTLE_RETURN_IF_ERROR(CheckFacts(provenance, build, object));
  }
  FETTLE_ASSIGN_OR_RETURN(const Target target, FindTarget(provenance.target));
  for (const BoundCase& bound_case : cases) {
    FETTLE_ASSIGN_OR_RETURN(const bool supported, AppliesTo(variant, bound_case));
    if (!supported) continue;
    FETTLE_ASSIGN_OR_RETURN(
        const Task::BuildInputs inputs,
        variant.task->BuildInputsFor(variant.kernel, variant.values, bound_case, target));
    if (inputs.entries.empty()) continue;  // Nothing is launched, as for no rows.
    const bool built = std::any_of(
        provenance.builds.begin(), provenance.builds.end(), [&](const ProvenanceBuild& build) {
          return build.key == inputs.key && build.target == provenance.target;
        });
    if (!built) {
      return Refuse(provenance, fmt::format("no code object of the build that case {} needs",
                                            bound_case.label));
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool IsKnownLicense(const std::string& license) {
  static constexpr std::array<std::string_view, 22> kKnown = {"0BSD",
                                                              "AGPL-3.0-only",
                                                              "AGPL-3.0-or-later",
                                                              "Apache-2.0",
                                                              "Apache-2.0 WITH LLVM-exception",
                                                              "BSD-2-Clause",
                                                              "BSD-3-Clause",
                                                              "BSL-1.0",
                                                              "CC0-1.0",
                                                              "GPL-2.0-only",
                                                              "GPL-2.0-or-later",
                                                              "GPL-3.0-only",
                                                              "GPL-3.0-or-later",
                                                              "ISC",
                                                              "LGPL-2.1-only",
                                                              "LGPL-2.1-or-later",
                                                              "LGPL-3.0-only",
                                                              "LGPL-3.0-or-later",
                                                              "MIT",
                                                              "MPL-2.0",
                                                              "Unlicense",
                                                              "Zlib"};
  if (license.starts_with("LicenseRef-")) return license.size() > 11;
  return std::find(kKnown.begin(), kKnown.end(), std::string_view(license)) != kKnown.end();
}

absl::StatusOr<bool> AppliesTo(const ProvenVariant& variant, const BoundCase& bound_case) {
  FETTLE_ASSIGN_OR_RETURN(const bool supported, variant.task->Supports(variant.kernel, bound_case));
  if (!supported) return false;
  FETTLE_ASSIGN_OR_RETURN(const Target target, FindTarget(variant.provenance->target));
  return variant.task->Admits(variant.kernel, variant.values, target, &bound_case);
}

absl::StatusOr<ProvenVariant> CheckEvidence(const VariantProvenance& provenance, BlobStore& blobs) {
  if (provenance.status != "accepted" && provenance.status != "superseded") {
    return Refuse(provenance, fmt::format("it is {}: its evidence no longer holds on the "
                                          "installed toolchain and device",
                                          provenance.status));
  }
  ProvenVariant result{.provenance = &provenance, .task = nullptr, .kernel = {}, .values = {}};
  FETTLE_ASSIGN_OR_RETURN(result.task, ReadTask(provenance, blobs));
  const Task& task = *result.task;
  std::vector<TaskProblem> problems;
  FETTLE_ASSIGN_OR_RETURN(result.kernel, task.ParseKernelSpec(provenance.kernel, &problems));
  FETTLE_ASSIGN_OR_RETURN(result.values, ReadValues(provenance, provenance.values, "its"));
  const nlohmann::json& digest =
      provenance.document["variant"].value("candidate_digest", nlohmann::json());
  if (digest.is_string() &&
      digest != CandidateDigest(task.digest(), provenance.target, result.kernel, result.values)) {
    return Refuse(provenance,
                  "its evidence is for another candidate: the kernel or its values "
                  "were changed");
  }
  FETTLE_RETURN_IF_ERROR(CheckDenominator(provenance, task));
  FETTLE_ASSIGN_OR_RETURN(const Target target, FindTarget(provenance.target));
  FETTLE_ASSIGN_OR_RETURN(const std::vector<BoundCase> timed,
                          task.BindCases(CaseSet::kTimed, kBindSeed, target));
  FETTLE_ASSIGN_OR_RETURN(std::vector<BoundCase> cases,
                          task.BindCases(CaseSet::kChecked, kBindSeed, target));
  cases.insert(cases.end(), timed.begin(), timed.end());
  FETTLE_RETURN_IF_ERROR(CheckVerification(provenance, cases));
  FETTLE_RETURN_IF_ERROR(CheckMeasurement(result, timed));
  FETTLE_RETURN_IF_ERROR(CheckBuilds(result, cases, blobs));
  return result;
}

}  // namespace fettle
