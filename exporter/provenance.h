// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/evidence.h"

namespace fettle {

// One compiled build that a provenance document names.
struct ProvenanceBuild {
  std::string target;       // The variant's unless the build says otherwise.
  std::string status;       // "run", "emulated" or "compiled_only".
  std::string key;          // Task::BuildInputs::key.
  std::string code_object;  // Blob digest.
  std::string compiler;
  std::vector<std::string> entries, symbols;
  nlohmann::json facts;  // Object, may be empty.
};

// The provenance document of one variant (docs/provenance.md), with what an export reads from it.
struct VariantProvenance {
  nlohmann::json document;
  std::string id;
  std::string status;  // "accepted", "superseded", "demoted"
  std::string target;
  std::string task_name, task_digest, task_blob;
  nlohmann::json kernel;  // ToJson(KernelSpec).
  nlohmann::json values;  // {"BLOCK": 128}
  nlohmann::json baseline_kernel, baseline_values;
  nlohmann::json denominator_kernel, denominator_values;
  std::vector<ProvenanceBuild> builds;
  VerificationReport verification;
  Measurement measurement;
  double ratio = 0, ratio_low = 0, ratio_high = 0;
};

// kInvalidArgument names the missing or malformed field.
absl::StatusOr<VariantProvenance> ParseProvenance(std::string_view text);

}  // namespace fettle
