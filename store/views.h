// SPDX-License-Identifier: Apache-2.0
#pragma once

// What pages show: searched, sorted and summed over many rows. Reads only.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "store/database.h"
#include "store/records.h"

namespace fettle {

// Empty fields match everything.
struct JobSearch {
  std::string state, task_name, target;
};
// As ListJobs, filtered.
absl::StatusOr<std::vector<JobRow>> SearchJobs(Connection& db, const JobSearch& search,
                                               std::int64_t before_ns, std::string_view before_id,
                                               int limit);

// Ids of jobs that are open or have ended since `since_ns`, oldest first.
absl::StatusOr<std::vector<std::string>> OpenOrEndedJobs(Connection& db, std::int64_t since_ns,
                                                         int limit);

// Where a page of a sorted list ended: the sorted column's value and the id of its last row.
struct SortCursor {
  std::string id;            // Empty: the start.
  std::int64_t time_ns = 0;  // The one of these three that the order is by.
  double number = 0;
  std::string text;
};

// How variants can be sorted; ties by id.
enum class VariantSort { kAccepted, kSpeedUp, kDeclared, kRoofline, kTask, kTarget };

struct VariantSearch {
  std::string task_name, target, device_model, job_id, status;
  std::vector<std::string> words;  // At most three: each must occur in what is listed, in any case.
  VariantSort sort = VariantSort::kAccepted;
  bool ascending = false;
};
// Without provenance.
absl::StatusOr<std::vector<VariantRow>> SearchVariants(Connection& db, const VariantSearch& search,
                                                       const SortCursor& after, int limit);
absl::StatusOr<std::int64_t> CountVariants(Connection& db, const VariantSearch& search);
SortCursor CursorOf(const VariantRow& row, VariantSort sort);

// What the variants can be filtered by.
struct CatalogEntry {
  std::string task_name, target, device_model;
  std::int64_t variants = 0;
};
absl::StatusOr<std::vector<CatalogEntry>> ListCatalog(Connection& db);

// One candidate as a point in time.
struct TimelinePoint {
  std::int64_t ordinal = 0, parent_ordinal = 0;  // Parent 0: none, or of another job.
  std::string digest, verdict, reason_code, stage, technique;
  double ratio = 0, ratio_low = 0, ratio_high = 0;  // 0: not measured.
  std::int64_t created_ns = 0, judged_ns = 0;
};
// By ordinal, after `after_ordinal`. The interval is the weighted geometric mean of the timed
// cases' 95 % intervals.
absl::StatusOr<std::vector<TimelinePoint>> Timeline(Connection& db, std::string_view job_id,
                                                    std::int64_t after_ordinal, int limit);

// One timed case of one variant, from its confirmation.
struct VariantCase {
  std::string variant_id, task_name, task_digest, target, device_model, status;
  double variant_ratio = 0;
  std::int64_t accepted_ns = 0;
  MeasurementRow measured;
};
struct CaseSearch {
  std::string task_name, target, status;
};
// The cases of at most `limit` variants, newest variants first; paging as in ListJobs.
absl::StatusOr<std::vector<VariantCase>> ListVariantCases(Connection& db, const CaseSearch& search,
                                                          std::int64_t before_ns,
                                                          std::string_view before_id, int limit);

// One timed case of a recent evaluation, for the health of a device.
struct RecentCase {
  std::string device_model, host, driver, compiler, job_id, task_name, case_label;
  std::int64_t stored_ns = 0, ordinal = 0;
  double a_median_ns = 0, aa_spread = 0;
  double bytes_per_s = 0, roofline_fraction = 0;
  std::int64_t blocks = 0, discarded_blocks = 0;
};
// Of the last `evaluations` evaluations that measured, oldest first.
absl::StatusOr<std::vector<RecentCase>> RecentCases(Connection& db, int evaluations);

}  // namespace fettle
