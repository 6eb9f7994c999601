// SPDX-License-Identifier: Apache-2.0
#pragma once

// The agent's journal: questions to models, tries, transcripts. Writers are called inside
// Store::Write.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "store/database.h"
#include "store/records.h"

namespace fettle {

// Gives the row the job's next sequence.
absl::Status InsertAgentCall(Connection& db, AgentCallRow& row);
// Writes state, reply, error, charges and end. Device time only with an answer: see
// SettleDeviceTime.
absl::Status UpdateAgentCall(Connection& db, const AgentCallRow& row);
// In order, after `after`; without request and reply.
absl::StatusOr<std::vector<AgentCallRow>> ListAgentCalls(Connection& db, std::string_view job_id,
                                                         std::int64_t after, int limit);
// With request and reply. kNotFound.
absl::StatusOr<AgentCallRow> ReadAgentCall(Connection& db, std::string_view job_id,
                                           std::int64_t sequence);
// The device time of a call that ended without an answer, instead of its reservation.
absl::Status SettleDeviceTime(Connection& db, std::string_view job_id, std::int64_t sequence,
                              std::int64_t device_ms);
// Calls that were in flight when the last server ended become lost, at their reservation.
absl::Status LoseAgentCalls(Connection& db, std::string_view job_id, std::int64_t now_ns);

struct AgentCharges {
  std::int64_t tokens = 0;
  double usd = 0;
};
absl::StatusOr<AgentCharges> SumAgentCalls(Connection& db, std::string_view job_id);

absl::Status PutTranscript(Connection& db, std::string_view job_id, std::string_view digest,
                           std::string_view blob);
// Empty: there is none.
absl::StatusOr<std::string> FindTranscript(Connection& db, std::string_view job_id,
                                           std::string_view digest);

}  // namespace fettle
