// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "core/clock.h"
#include "store/store.h"

namespace fettle {

// Propose tokens: each opens the Proposals service for one job. Only their hashes are kept.
// Thread-safe.
class JobTokens {
 public:
  // Every propose token is this, its job, a dash and 48 hex digits, so that one is known as such
  // wherever it is shown, and a client need not be told the job.
  static constexpr std::string_view kPrefix = "fpt-";

  // Reads the hashes.
  absl::Status Load(const Store& store);
  // A new token for the job; stored before it is returned.
  absl::StatusOr<std::string> Create(Store& store, const std::string& job_id, Clock& clock);
  // The job that the token opens; unset: unknown.
  std::optional<std::string> JobOf(std::string_view token) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> jobs_;  // By hash. Guarded by mutex_.
};

}  // namespace fettle
