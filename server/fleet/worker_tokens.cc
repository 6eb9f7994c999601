// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/worker_tokens.h"

#include <fmt/format.h>

#include "core/digest.h"
#include "core/status_macros.h"
#include "server/access.h"
#include "store/fleet_store.h"

namespace fettle {

absl::Status WorkerTokens::Load(const Store& store) {
  return store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(const auto rows, ListWorkerTokens(db));
    const std::lock_guard lock(mutex_);
    for (const auto& [sha256, job_id] : rows) jobs_[sha256] = job_id;
    return absl::OkStatus();
  });
}

absl::StatusOr<std::string> WorkerTokens::Create(Store& store, const std::string& job_id,
                                                 Clock& clock) {
  const std::string token = fmt::format("{}{}-{}", kPrefix, job_id, NewToken());
  const std::string sha256 = Sha256Hex(token);
  FETTLE_RETURN_IF_ERROR(store.Write(
      [&](Connection& db) { return InsertWorkerToken(db, sha256, job_id, clock.NowNs()); }));
  const std::lock_guard lock(mutex_);
  jobs_[sha256] = job_id;
  return token;
}

absl::Status WorkerTokens::Revoke(Store& store, const std::string& job_id) {
  FETTLE_RETURN_IF_ERROR(
      store.Write([&](Connection& db) { return DeleteWorkerTokens(db, job_id); }));
  const std::lock_guard lock(mutex_);
  std::erase_if(jobs_, [&](const auto& entry) { return entry.second == job_id; });
  return absl::OkStatus();
}

std::optional<std::string> WorkerTokens::JobOf(std::string_view token) const {
  const std::string sha256 = Sha256Hex(token);  // A hash's lookup time tells nothing about tokens.
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(sha256);
  if (found == jobs_.end()) return std::nullopt;
  return found->second;
}

}  // namespace fettle
