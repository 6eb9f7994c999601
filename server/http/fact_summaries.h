// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "server/optimizer_calls.h"

namespace fettle {

// Per variant, what a list shows of its whole provenance: the facts of its builds, and what its
// timed cases are. Reading a provenance takes milliseconds and it never changes, so a summary is
// made once and kept. Thread-safe.
class FactSummaries {
 public:
  // `calls` outlives this object.
  explicit FactSummaries(const OptimizerCalls& calls) : calls_(calls) {}

  // {"id", "builds": [{"entries", "compiler", "facts"}], "cases": {label: description}}.
  absl::StatusOr<nlohmann::json> Of(const std::string& variant_id);

 private:
  const OptimizerCalls& calls_;
  std::mutex mutex_;
  std::map<std::string, nlohmann::json> known_;  // Guarded by mutex_.
};

}  // namespace fettle
