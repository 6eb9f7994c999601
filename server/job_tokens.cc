// SPDX-License-Identifier: Apache-2.0
#include "server/job_tokens.h"

#include <fmt/format.h>

#include "core/digest.h"
#include "core/status_macros.h"
#include "server/access.h"

namespace fettle {

std::string_view JobTokens::PrefixOf(JobTokenKind kind) {
  return kind == JobTokenKind::kPropose ? "fpt-" : "fwt-";
}

absl::Status JobTokens::Load(const Store& store) {
  return store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(const auto rows, ListJobTokens(db, kind_));
    const std::lock_guard lock(mutex_);
    for (const auto& [sha256, job_id] : rows) jobs_[sha256] = job_id;
    return absl::OkStatus();
  });
}

absl::StatusOr<std::string> JobTokens::Create(Store& store, const std::string& job_id,
                                              Clock& clock) {
  const std::string token = fmt::format("{}{}-{}", PrefixOf(kind_), job_id, NewToken());
  const std::string sha256 = Sha256Hex(token);
  FETTLE_RETURN_IF_ERROR(store.Write(
      [&](Connection& db) { return InsertJobToken(db, kind_, sha256, job_id, clock.NowNs()); }));
  const std::lock_guard lock(mutex_);
  jobs_[sha256] = job_id;
  return token;
}

absl::Status JobTokens::Revoke(Store& store, const std::string& job_id) {
  FETTLE_RETURN_IF_ERROR(
      store.Write([&](Connection& db) { return DeleteJobTokens(db, kind_, job_id); }));
  const std::lock_guard lock(mutex_);
  std::erase_if(jobs_, [&](const auto& entry) { return entry.second == job_id; });
  return absl::OkStatus();
}

std::optional<std::string> JobTokens::JobOf(std::string_view token) const {
  const std::string sha256 = Sha256Hex(token);  // A hash's lookup time tells nothing about tokens.
  const std::lock_guard lock(mutex_);
  const auto found = jobs_.find(sha256);
  if (found == jobs_.end()) return std::nullopt;
  return found->second;
}

}  // namespace fettle
