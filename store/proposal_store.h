// SPDX-License-Identifier: Apache-2.0
#pragma once

// What proposers outside the server leave behind: proposals, tokens, claimed directions, tries.
// Writers are called inside Store::Write.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "store/database.h"
#include "store/records.h"

namespace fettle {

// Gives the row the job's next sequence. kAlreadyExists: the key is taken.
absl::Status InsertProposal(Connection& db, ProposalRow& row);
absl::StatusOr<std::optional<ProposalRow>> FindProposalByKey(Connection& db,
                                                             std::string_view job_id,
                                                             std::string_view key);
// The first one that made this candidate; `digest` may be a prefix.
absl::StatusOr<std::optional<ProposalRow>> FindProposalByCandidate(Connection& db,
                                                                   std::string_view job_id,
                                                                   std::string_view digest);
// Oldest first.
absl::StatusOr<std::vector<ProposalRow>> QueuedProposals(Connection& db, std::string_view job_id,
                                                         int limit);
// Those that were taken and ask the tuner to fit their tunables, oldest first.
absl::StatusOr<std::vector<ProposalRow>> FitProposals(Connection& db, std::string_view job_id);
absl::StatusOr<std::int64_t> CountQueuedProposals(Connection& db, std::string_view job_id);
absl::Status MarkProposalTaken(Connection& db, std::string_view job_id, std::int64_t sequence);

// Claims `direction` until `until_ns` unless another holder's claim is alive at `now_ns`. Returns
// whether it is the caller's now.
absl::StatusOr<bool> PutDirection(Connection& db, std::string_view job_id, const DirectionRow& row,
                                  std::int64_t now_ns);
// Claims that no clock that is right can have made.
absl::Status DropDirectionsAfter(Connection& db, std::string_view job_id, std::int64_t ns);
absl::Status DropDirection(Connection& db, std::string_view job_id, std::string_view direction,
                           std::string_view holder);
absl::StatusOr<std::vector<DirectionRow>> LiveDirections(Connection& db, std::string_view job_id,
                                                         std::int64_t now_ns);

// Sets the row's sequence.
absl::Status InsertTry(Connection& db, TryRow& row);
absl::Status UpdateTry(Connection& db, const TryRow& row);
absl::StatusOr<std::int64_t> CountTries(Connection& db, std::string_view job_id);

}  // namespace fettle
