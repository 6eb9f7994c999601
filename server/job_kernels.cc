// SPDX-License-Identifier: Apache-2.0
#include "server/job_kernels.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/status_macros.h"
#include "core/text.h"
#include "server/job_measures.h"
#include "store/candidate_store.h"
#include "store/variant_store.h"

namespace fettle {

absl::StatusOr<std::optional<CandidateRow>> FindNamedCandidate(const Store& store,
                                                               const std::string& job_id,
                                                               const std::string& name) {
  std::optional<CandidateRow> row;
  FETTLE_RETURN_IF_ERROR(store.Read([&](Connection& db) -> absl::Status {
    if (!name.starts_with('v')) {  // Digests are hexadecimal.
      FETTLE_ASSIGN_OR_RETURN(row, FindCandidateByDigest(db, job_id, name));
      return absl::OkStatus();
    }
    FETTLE_ASSIGN_OR_RETURN(const auto variant, FindVariant(db, name));
    if (!variant.has_value() || variant->job_id != job_id) return absl::OkStatus();
    FETTLE_ASSIGN_OR_RETURN(row, FindCandidate(db, job_id, variant->ordinal));
    return absl::OkStatus();
  }));
  return row;
}

absl::StatusOr<KernelUnderTest> LoadKernel(const Store& store, const CandidateRow& row) {
  std::optional<KernelRow> stored;
  FETTLE_RETURN_IF_ERROR(store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(stored, FindKernel(db, row.kernel_digest));
    return absl::OkStatus();
  }));
  if (!stored.has_value()) {
    return absl::DataLossError(fmt::format("kernel of candidate {} is not stored", row.digest));
  }
  const auto json = nlohmann::json::parse(stored->json, nullptr, /*allow_exceptions=*/false);
  KernelUnderTest kernel;
  kernel.digest = row.digest;
  FETTLE_ASSIGN_OR_RETURN(kernel.kernel, KernelSpecFromJson(json));
  kernel.values = ParseValues(row.values_json);
  kernel.kernel.values = kernel.values;
  return kernel;
}

absl::StatusOr<KernelUnderTest> FindDenominator(const Store& store, const Task& task,
                                                const JobRow& job) {
  if (job.stage == job_stage::kSearch && !job.tuned_variant.empty()) {
    std::optional<VariantRow> tuned;
    std::optional<CandidateRow> row;
    FETTLE_RETURN_IF_ERROR(store.Read([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(tuned, FindVariant(db, job.tuned_variant));
      if (!tuned.has_value()) return absl::DataLossError("the tuned baseline is not stored");
      FETTLE_ASSIGN_OR_RETURN(row, FindCandidate(db, tuned->job_id, tuned->ordinal));
      return absl::OkStatus();
    }));
    if (row.has_value()) return LoadKernel(store, *row);
  }
  const KernelSpec& baseline = task.baseline();
  return KernelUnderTest{CandidateDigest(task.digest(), job.target, baseline, baseline.values),
                         baseline, baseline.values};
}

// The kernel's document with the first value of every tunable, so that candidates which differ in
// their values alone, which their rows hold, share it.
std::string SharedKernelJson(KernelSpec kernel) {
  for (const Tunable& tunable : kernel.tunables) {
    if (!tunable.values.empty()) kernel.values[tunable.name] = tunable.values.front();
  }
  return ToJson(kernel).dump(-1, ' ', false, kReplaceInvalid);
}

}  // namespace fettle
