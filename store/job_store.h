// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tasks, registrations, jobs and events. Writers are called inside Store::Write.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "store/database.h"
#include "store/records.h"

namespace fettle {

// Storing an existing task is a no-op.
absl::Status InsertTask(Connection& db, const TaskRow& task);
absl::StatusOr<std::optional<TaskRow>> FindTask(Connection& db, std::string_view digest);

absl::Status PutRegistration(Connection& db, const RegistrationRow& row);
absl::StatusOr<std::optional<RegistrationRow>> FindRegistration(Connection& db,
                                                                std::string_view task_digest,
                                                                std::string_view target,
                                                                std::string_view fettle_version);

// kAlreadyExists: the id or the request id is taken.
absl::Status InsertJob(Connection& db, const JobRow& job);
// Everything but what InsertJob fixed and the cancel request.
absl::Status UpdateJob(Connection& db, const JobRow& job);
// Adds to what a job that has ended spent; false: it has not ended.
absl::StatusOr<bool> AddDeviceTime(Connection& db, std::string_view id, std::int64_t device_ms);
absl::Status SetCancelRequested(Connection& db, std::string_view id, bool requested);
absl::StatusOr<std::optional<JobRow>> FindJob(Connection& db, std::string_view id);
absl::StatusOr<std::optional<JobRow>> FindJobByRequest(Connection& db, std::string_view request_id);
// Newest first; `before_ns` and `before_id` name the last row of the previous page (0 and empty:
// from the newest).
absl::StatusOr<std::vector<JobRow>> ListJobs(Connection& db, std::int64_t before_ns,
                                             std::string_view before_id, int limit);
// Ids of jobs that are queued or running, oldest first.
absl::StatusOr<std::vector<std::string>> OpenJobs(Connection& db);
absl::StatusOr<std::map<std::string, std::int64_t>> VerdictCounts(Connection& db,
                                                                  std::string_view job_id);

absl::Status InsertEvent(Connection& db, std::string_view job_id, const EventRow& event);
// Events with sequence > `after`, oldest first.
absl::StatusOr<std::vector<EventRow>> ReadEvents(Connection& db, std::string_view job_id,
                                                 std::int64_t after, int limit);

}  // namespace fettle
