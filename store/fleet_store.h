// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the server keeps of workers that it has others start. Writers are called inside
// Store::Write.

#include <cstdint>
#include <string_view>

#include <absl/status/statusor.h>

#include "store/database.h"

namespace fettle {

// A place that the pool says is held for so long by now. One that was given again, and is held for
// a shorter time than before, counts anew.
absl::Status PutAllocation(Connection& db, std::string_view job_id, std::string_view id,
                           std::int64_t devices, std::int64_t held_s, std::int64_t now_ns);
// Seconds of devices that were held for a job, or for all of them where `job_id` is empty.
absl::StatusOr<std::int64_t> SumAllocations(Connection& db, std::string_view job_id);

// Of the devices' time above, what units of those jobs used: milliseconds.
absl::StatusOr<std::int64_t> SumAllocatedUse(Connection& db);

}  // namespace fettle
