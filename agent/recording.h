// SPDX-License-Identifier: Apache-2.0
#pragma once

// Recorded jobs that stand in for a model: conversations, or what was proposed from outside.
// Whatever comes of a replay is labelled as one.

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "agent/llm/llm_client.h"
#include "agent/proposer.h"

namespace fettle {

// A recorded answer of a model.
struct RecordedCall {
  std::string role;   // "plan", "write".
  std::string key;    // RequestKey of what was asked.
  std::string loose;  // LooseKey of it.
  LlmReply reply;
};

// A recorded proposal.
struct RecordedProposal {
  int parent = -1;        // Index in the list; -1: the baseline.
  nlohmann::json kernel;  // The whole block.
  std::string technique, rationale;
};

struct Recording {
  std::string task, target, source;  // `source`: who proposed, on what, when.
  std::vector<RecordedCall> calls;
  std::vector<RecordedProposal> proposals;
};

// {format: 1, task, target, source, calls: [{role, key, loose, reply}], proposals: [{parent,
// technique, rationale, kernel}]}. kInvalidArgument names the field.
absl::StatusOr<Recording> ParseRecording(std::string_view json_text);
nlohmann::json ToJson(const Recording& recording);

// Digest of a request (ToJson(LlmRequest)) and who was asked.
std::string RequestKey(std::string_view role, nlohmann::json request);
// The same with every number left out: times and counts differ from run to run.
std::string LooseKey(std::string_view role, nlohmann::json request);

// Answers from a recording, each answer once: by the exact request, else by the request without its
// numbers, else the role's next one in order. kNotFound: the recording has no more. Thread-safe.
class ReplayClient final : public LlmClient {
 public:
  explicit ReplayClient(std::vector<RecordedCall> calls, std::string role);
  std::string_view provider() const override { return "replay"; }
  absl::StatusOr<LlmReply> Complete(const LlmRequest& request, std::stop_token stop) override;

 private:
  const std::vector<RecordedCall> calls_;
  const std::string role_;
  std::mutex mutex_;
  std::vector<bool> used_;  // Guarded by mutex_.
};

// Proposes what was recorded, in order, one at a time. `task` must outlive it. kInvalidArgument: a
// recorded kernel does not fit the task.
absl::StatusOr<std::unique_ptr<Proposer>> MakeProposalReplay(const Task& task,
                                                             const std::string& target,
                                                             const Recording& recording);

}  // namespace fettle
