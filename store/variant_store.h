// SPDX-License-Identifier: Apache-2.0
#pragma once

// Accepted variants with their provenance. Writers are called inside Store::Write.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "store/database.h"
#include "store/records.h"

namespace fettle {

absl::Status InsertVariant(Connection& db, const VariantRow& variant);
// kNotFound: no such variant.
absl::Status SetVariantStatus(Connection& db, std::string_view id, std::string_view status,
                              std::string_view reason);
// `id` may be an unambiguous prefix; with provenance. kInvalidArgument: several share it.
absl::StatusOr<std::optional<VariantRow>> FindVariant(Connection& db, std::string_view id);

// Empty fields match everything.
struct VariantFilter {
  std::string task_name, target, job_id, status;
};
// Newest first, without provenance; paging as in ListJobs.
absl::StatusOr<std::vector<VariantRow>> ListVariants(Connection& db, const VariantFilter& filter,
                                                     std::int64_t before_ns,
                                                     std::string_view before_id, int limit);
// The newest tuned baseline in force for the task on that kind of device.
absl::StatusOr<std::optional<VariantRow>> FindTunedBaseline(Connection& db,
                                                            std::string_view task_digest,
                                                            std::string_view target,
                                                            std::string_view device_model,
                                                            std::string_view toolchain);

}  // namespace fettle
