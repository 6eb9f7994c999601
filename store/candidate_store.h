// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels, candidates, units with their leases, and evaluations. Writers are called inside
// Store::Write.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "store/database.h"
#include "store/records.h"

namespace fettle {

absl::Status InsertKernel(Connection& db, const KernelRow& kernel);  // Existing: a no-op.
absl::StatusOr<std::optional<KernelRow>> FindKernel(Connection& db, std::string_view digest);

// kAlreadyExists: the job has a candidate with that digest or ordinal.
absl::Status InsertCandidate(Connection& db, const CandidateRow& candidate);
// Writes state, judged order and time, verdict and ratio.
absl::Status UpdateCandidate(Connection& db, const CandidateRow& candidate);
absl::StatusOr<std::optional<CandidateRow>> FindCandidate(Connection& db, std::string_view job_id,
                                                          std::int64_t ordinal);
// `digest` may be a prefix; kInvalidArgument where several candidates share it.
absl::StatusOr<std::optional<CandidateRow>> FindCandidateByDigest(Connection& db,
                                                                  std::string_view job_id,
                                                                  std::string_view digest);
// By ordinal, after `after_ordinal`; `verdict` empty: all.
absl::StatusOr<std::vector<CandidateRow>> ListCandidates(Connection& db, std::string_view job_id,
                                                         std::string_view verdict,
                                                         std::int64_t after_ordinal, int limit);
// Newest first, before `before_ordinal` (0: from the newest).
absl::StatusOr<std::vector<CandidateRow>> RecentCandidates(Connection& db, std::string_view job_id,
                                                           std::string_view verdict,
                                                           std::int64_t before_ordinal, int limit);
// Judged ones by falling ratio, after the first `skip`.
absl::StatusOr<std::vector<CandidateRow>> BestCandidates(Connection& db, std::string_view job_id,
                                                         std::string_view verdict,
                                                         std::int64_t skip, int limit);
absl::StatusOr<std::vector<CandidateRow>> OpenCandidates(Connection& db, std::string_view job_id);
// Judged candidates of one stage in the order in which they were judged, after `after_order`.
absl::StatusOr<std::vector<CandidateRow>> JudgedCandidates(Connection& db, std::string_view job_id,
                                                           std::string_view stage,
                                                           std::int64_t after_order, int limit);
// How many candidates of the job belong to `stage`.
absl::StatusOr<std::int64_t> CountCandidates(Connection& db, std::string_view job_id,
                                             std::string_view stage);

absl::Status InsertUnit(Connection& db, const UnitRow& unit);
// Writes state, worker, reason and times of (id, attempt).
absl::Status UpdateUnit(Connection& db, const UnitRow& unit);
// All attempts, oldest first.
absl::StatusOr<std::vector<UnitRow>> UnitAttempts(Connection& db, std::string_view id);
// Pending and leased units of a job.
absl::StatusOr<std::vector<UnitRow>> OpenUnits(Connection& db, std::string_view job_id);
// Marks all open units of a job as cancelled.
absl::Status CancelOpenUnits(Connection& db, std::string_view job_id, std::int64_t now_ns);

// Inserts the evaluation with its measurements and builds. kAlreadyExists: the unit has a result.
absl::Status InsertEvaluation(Connection& db, const EvaluationRow& evaluation);
// A job's device time as its units and tries have it. Tries under way count as what is reserved for
// them.
struct DeviceSums {
  std::int64_t spent_ms = 0;
  std::int64_t longest_ms = 0;  // Of one evaluation, confirmation or try; 0: none took any.
};
absl::StatusOr<DeviceSums> SumDeviceTime(Connection& db, std::string_view job_id);
// Without measurements and builds, which the result document holds too.
absl::StatusOr<std::optional<EvaluationRow>> FindEvaluation(Connection& db,
                                                            std::string_view unit_id);
// Of one candidate, in the order in which they were stored.
absl::StatusOr<std::vector<EvaluationRow>> ListEvaluations(Connection& db, std::string_view job_id,
                                                           std::int64_t ordinal);
absl::StatusOr<std::vector<MeasurementRow>> ListMeasurements(Connection& db,
                                                             std::string_view unit_id);

}  // namespace fettle
