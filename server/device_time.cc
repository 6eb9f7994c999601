// SPDX-License-Identifier: Apache-2.0
#include "server/device_time.h"

#include <fmt/format.h>

#include "core/status_macros.h"
#include "server/job_measures.h"
#include "store/candidate_store.h"

namespace fettle {

absl::Status DeviceTimeLeft(Store& store, const JobRow& job, std::int64_t open_tries) {
  if (job.budget.device_ms == 0) return absl::OkStatus();
  std::int64_t longest_ns = 0;
  std::int64_t open_units = 0;
  FETTLE_RETURN_IF_ERROR(store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(longest_ns, LongestDeviceNs(db, job.id));
    FETTLE_ASSIGN_OR_RETURN(open_units, CountOpenUnits(db, job.id));
    return absl::OkStatus();
  }));
  const std::int64_t left = job.budget.device_ms - job.spent.device_ms;
  const std::int64_t reserved = (open_units + open_tries + 1) * DeviceMs(longest_ns);
  if (left > 0 && reserved <= left) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "the job's device time is spent: {} s left, and what is under way with one more may take "
      "{} s",
      static_cast<double>(left) / 1000, static_cast<double>(reserved) / 1000));
}

}  // namespace fettle
