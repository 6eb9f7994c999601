// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "agent/proposer.h"
#include "core/target.h"
#include "core/task.h"
#include "server/agent_services.h"

namespace fettle {

// A job's `options_json`. Unknown keys are refused.
struct JobOptions {
  // Stop after so many candidates in a row without a new variant; 0: never.
  std::int64_t plateau = 300;
  // Stop once a variant reaches this fraction of the roofline; 0: never.
  double roofline_stop = 0.95;
  // Stop once a variant is so many times as fast as the declared baseline, and give back what is
  // under way; 0: never.
  double speedup_stop = 0;
  // Part of the candidate budget that finding the tuned baseline may take.
  double tune_share = 0.33;
  // Seconds of timing per timed case and measurement.
  double time_cap_s = 20;
  // Proposers around a model: names in the server's models file (empty: its default; writer: as
  // `model`), the recording of a replay, values of a proposal's tunables that `hybrid` tries, and
  // the writer's answers in one round.
  std::string model, writer, recording;
  std::int64_t fit = 24;
  std::int64_t turns = 10;
  // Under which its workers are asked for (docs/fleet.md); empty: as the server is configured.
  std::string account, partition, qos;
};
// kInvalidArgument names the key. Empty text: the defaults.
absl::StatusOr<JobOptions> ParseJobOptions(const std::string& json_text);

// Kinds of proposers that ask models, and those that mostly wait for somebody.
inline bool UsesModels(std::string_view kind) { return kind == "llm" || kind == "hybrid"; }
inline bool MostlyWaits(std::string_view kind) { return UsesModels(kind) || kind == "external"; }

struct ProposerOptions {
  std::uint64_t seed = 0;
  std::int64_t budget = 0;  // Candidates that it may propose in all; 0: no limit.
  std::string options_json;
  JobServices services;
};
// Makes the proposer of a job. kInvalidArgument: an unknown kind.
using ProposerFactory = std::function<absl::StatusOr<std::unique_ptr<Proposer>>(
    const std::string& kind, const Task& task, const Target& target,
    const ProposerOptions& options)>;

}  // namespace fettle
