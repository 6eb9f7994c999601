// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <absl/status/status.h>

#include "fettle/v1/optimizer.pb.h"
#include "store/database.h"
#include "store/records.h"

namespace fettle {

v1::JobState JobStateToProto(const std::string& state);
v1::Budget BudgetToProto(const BudgetRow& budget);

// Stores `event` (its payload set) as the job's next one; raises job.last_sequence, which the
// caller writes with UpdateJob in the same transaction. `terminal`: none follows unless the job is
// resumed.
absl::Status AppendEvent(Connection& db, JobRow& job, v1::JobEvent event, std::int64_t now_ns,
                         bool terminal);

// A StateChanged event for the row as it is.
v1::JobEvent StateEvent(const JobRow& job);
v1::JobEvent StageEvent(const std::string& stage, const std::string& message);
v1::JobEvent NoteEvent(const std::string& code, const std::string& text);

// The event as clients get it. `last`: it is the job's newest one.
absl::StatusOr<v1::JobEvent> EventToProto(const std::string& job_id, const EventRow& row,
                                          bool last);

}  // namespace fettle
