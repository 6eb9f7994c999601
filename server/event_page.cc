// SPDX-License-Identifier: Apache-2.0
#include "server/event_page.h"

#include <optional>

#include "core/status_macros.h"
#include "server/errors.h"
#include "server/job_events.h"
#include "store/job_store.h"

namespace fettle {

absl::StatusOr<EventPage> ReadEventPage(const Store& store, const std::string& job_id,
                                        std::int64_t after, int limit) {
  EventPage page;
  FETTLE_RETURN_IF_ERROR(store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(const std::optional<JobRow> job, FindJob(db, job_id));
    if (!job.has_value()) return errors::NoSuchJob(job_id);
    FETTLE_ASSIGN_OR_RETURN(const std::vector<EventRow> rows, ReadEvents(db, job_id, after, limit));
    for (const EventRow& row : rows) {
      FETTLE_ASSIGN_OR_RETURN(
          v1::JobEvent event,
          EventToProto(job_id, row, row.sequence == job->last_sequence && job->terminal()));
      page.events.push_back(std::move(event));
    }
    const std::int64_t reached = rows.empty() ? after : rows.back().sequence;
    page.more = reached < job->last_sequence;
    page.ended = job->terminal() && reached >= job->last_sequence;
    return absl::OkStatus();
  }));
  return page;
}

}  // namespace fettle
