// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/task.h"
#include "core/work_unit.h"
#include "store/database.h"
#include "store/records.h"

namespace fettle {

// Borrowed; all of it outlives the call.
struct ProvenanceInput {
  const VariantRow* variant = nullptr;
  const JobRow* job = nullptr;
  const Task* task = nullptr;
  std::string task_blob;
  const CandidateRow* candidate = nullptr;
  const KernelUnderTest* kernel = nullptr;
  const KernelUnderTest* denominator = nullptr;
  const UnitResult* confirmation = nullptr;
  const UnitRow* confirm_unit = nullptr;
  std::string search_result_json;  // UnitResult of the evaluation; may be empty.
  std::vector<std::string> parents;
  std::string fettle_version;
};

// The provenance document of a variant (docs/provenance.md).
nlohmann::json BuildProvenance(const ProvenanceInput& input);

// Digests of the candidate's parents within the job, nearest first; at most 1,000.
absl::StatusOr<std::vector<std::string>> ParentChain(Connection& db, const std::string& job_id,
                                                     const CandidateRow& candidate);

}  // namespace fettle
