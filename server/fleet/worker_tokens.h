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

// Tokens of workers that were started for one job: each connects a worker that gets that job's
// units alone. Only their hashes are kept. Thread-safe.
class WorkerTokens {
 public:
  // Every such token is this, its job, a dash and 48 hex digits.
  static constexpr std::string_view kPrefix = "fwt-";

  absl::Status Load(const Store& store);
  // A new token for the job; stored before it is returned.
  absl::StatusOr<std::string> Create(Store& store, const std::string& job_id, Clock& clock);
  // The tokens of the job open nothing any more.
  absl::Status Revoke(Store& store, const std::string& job_id);
  // The job that the token is for; unset: unknown.
  std::optional<std::string> JobOf(std::string_view token) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> jobs_;  // By hash. Guarded by mutex_.
};

}  // namespace fettle
