// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "core/clock.h"
#include "store/job_token_store.h"
#include "store/store.h"

namespace fettle {

// Tokens of one kind that each open one job. Only their hashes are kept. Thread-safe.
class JobTokens {
 public:
  explicit JobTokens(JobTokenKind kind) : kind_(kind) {}

  // Every token of the kind is this ("fpt-", "fwt-"), its job, a dash and 48 hex digits, so that
  // one is known as such wherever it is shown, and a client need not be told the job.
  static std::string_view PrefixOf(JobTokenKind kind);

  // Reads the hashes.
  absl::Status Load(const Store& store);
  // A new token for the job; stored before it is returned.
  absl::StatusOr<std::string> Create(Store& store, const std::string& job_id, Clock& clock);
  // The tokens of the job open nothing any more.
  absl::Status Revoke(Store& store, const std::string& job_id);
  // The job that the token opens; unset: unknown.
  std::optional<std::string> JobOf(std::string_view token) const;

 private:
  const JobTokenKind kind_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> jobs_;  // By hash. Guarded by mutex_.
};

}  // namespace fettle
