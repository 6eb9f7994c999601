// SPDX-License-Identifier: Apache-2.0
#include "server/job_events.h"

#include <fmt/format.h>

#include "core/status_macros.h"
#include "core/text.h"
#include "server/timestamps.h"
#include "store/job_store.h"

namespace fettle {

v1::JobState JobStateToProto(const std::string& state) {
  if (state == job_state::kQueued) return v1::JOB_STATE_QUEUED;
  if (state == job_state::kRunning) return v1::JOB_STATE_RUNNING;
  if (state == job_state::kSucceeded) return v1::JOB_STATE_SUCCEEDED;
  if (state == job_state::kFailed) return v1::JOB_STATE_FAILED;
  if (state == job_state::kCancelled) return v1::JOB_STATE_CANCELLED;
  return v1::JOB_STATE_UNSPECIFIED;
}

v1::Budget BudgetToProto(const BudgetRow& budget) {
  v1::Budget out;
  out.set_candidates(budget.candidates);
  out.set_wall_ms(budget.wall_ms);
  out.set_device_ms(budget.device_ms);
  out.set_tokens(budget.tokens);
  out.set_usd(budget.usd);
  return out;
}

absl::Status AppendEvent(Connection& db, JobRow& job, v1::JobEvent event, std::int64_t now_ns,
                         bool terminal) {
  EventRow row;
  row.sequence = ++job.last_sequence;
  row.time_ns = now_ns;
  row.terminal = terminal;
  row.payload = event.SerializeAsString();
  return InsertEvent(db, job.id, row);
}

v1::JobEvent StateEvent(const JobRow& job) {
  v1::JobEvent event;
  v1::StateChanged& changed = *event.mutable_state_changed();
  changed.set_state(JobStateToProto(job.state));
  changed.set_message(ValidUtf8(job.message));
  *changed.mutable_spent() = BudgetToProto(job.spent);
  return event;
}

v1::JobEvent StageEvent(const std::string& stage, const std::string& message) {
  v1::JobEvent event;
  event.mutable_stage_started()->set_stage(stage);
  event.mutable_stage_started()->set_message(ValidUtf8(message));
  return event;
}

v1::JobEvent NoteEvent(const std::string& code, const std::string& text) {
  v1::JobEvent event;
  event.mutable_note()->set_code(code);
  event.mutable_note()->set_text(ValidUtf8(text));
  return event;
}

absl::StatusOr<v1::JobEvent> EventToProto(const std::string& job_id, const EventRow& row,
                                          bool last) {
  v1::JobEvent event;
  if (!event.ParseFromString(row.payload)) {
    return absl::DataLossError(
        fmt::format("event {} of job {} cannot be read", row.sequence, job_id));
  }
  event.set_job_id(job_id);
  event.set_sequence(row.sequence);
  *event.mutable_time() = TimestampFromNs(row.time_ns);
  event.set_terminal(row.terminal && last);
  return event;
}

}  // namespace fettle
