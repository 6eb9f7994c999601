// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "agent/llm/llm_client.h"
#include "agent/proposer.h"
#include "core/work_unit.h"

namespace fettle {

// Who is asked: the planner chooses what to change, the writer writes it.
enum class ModelRole { kPlanner, kWriter };
std::string_view ModelRoleName(ModelRole role);  // "plan", "write"

// How a candidate fared, with what its proposer may see.
struct Attempt {
  std::string digest;
  VerdictRecord verdict;
  double ratio = 0;  // Over the denominator; 0: not measured.
  UnitResult evaluation;
  nlohmann::json feedback;  // agent/feedback.h.
};

// What the loop needs of its job. Everything is recorded: after a restart the loop runs again from
// the start, and each call that was answered before is answered alike at once and for nothing.
//
// Every call blocks; `stop` ends it with kCancelled.
class LoopHost {
 public:
  virtual ~LoopHost() = default;

  // Asks a model. kAborted: the budget does not allow the call (the message says which). Other
  // errors as LlmClient::Complete, after retries.
  virtual absl::StatusOr<LlmReply> Ask(ModelRole role, const LlmRequest& request,
                                       std::stop_token stop) = 0;
  // Whether the last answer of Ask was one of an earlier run.
  virtual bool recalled() const = 0;
  // Evaluates once, outside the candidates. `mode`: compile, check, bugs, measure, counters (one
  // call under the vendor's profiler). kUnavailable: no worker can.
  virtual absl::StatusOr<UnitResult> Try(const KernelSpec& kernel, const std::string& mode,
                                         std::stop_token stop) = 0;
  // Hands candidates in and waits for all their verdicts, in the order of the proposals.
  // `transcript` is kept beside each of them; null: none.
  virtual absl::StatusOr<std::vector<Attempt>> Evaluate(const std::vector<Proposal>& proposals,
                                                        const nlohmann::json& transcript,
                                                        std::stop_token stop) = 0;
  // The kernel of a candidate of the job. `digest` may be a prefix, or its variant's id; kNotFound.
  virtual absl::StatusOr<KernelSpec> Load(const std::string& digest) = 0;
  // A line for the job's events.
  virtual void Note(const std::string& code, const std::string& text) = 0;
};

}  // namespace fettle
