// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the server keeps of workers that it has others start. Writers are called inside
// Store::Write.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "store/database.h"

namespace fettle {

absl::Status InsertWorkerToken(Connection& db, std::string_view sha256, std::string_view job_id,
                               std::int64_t now_ns);
absl::Status DeleteWorkerTokens(Connection& db, std::string_view job_id);
// (sha256, job id) of all.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ListWorkerTokens(Connection& db);

// A place that the pool says is held for so long by now. One that was given again, and is held for
// a shorter time than before, counts anew.
absl::Status PutAllocation(Connection& db, std::string_view job_id, std::string_view id,
                           std::int64_t devices, std::int64_t held_s, std::int64_t now_ns);
// Seconds of devices that were held for a job, or for all of them where `job_id` is empty.
absl::StatusOr<std::int64_t> SumAllocations(Connection& db, std::string_view job_id);

}  // namespace fettle
