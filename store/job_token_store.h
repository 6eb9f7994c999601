// SPDX-License-Identifier: Apache-2.0
#pragma once

// Hashes of the tokens that open one job alone. Writers are called inside Store::Write.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "store/database.h"

namespace fettle {

enum class JobTokenKind {
  kPropose,  // Opens the Proposals service.
  kWorker,   // Connects a worker that gets the job's units.
};

absl::Status InsertJobToken(Connection& db, JobTokenKind kind, std::string_view sha256,
                            std::string_view job_id, std::int64_t now_ns);
absl::Status DeleteJobTokens(Connection& db, JobTokenKind kind, std::string_view job_id);
// (sha256, job id) of all.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ListJobTokens(Connection& db,
                                                                               JobTokenKind kind);

}  // namespace fettle
