// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "core/task.h"
#include "core/verdict.h"

namespace fettle {

// What a proposer hands in: a kernel with one value per tunable.
struct Proposal {
  KernelSpec kernel;
  TunableValues values;
  std::string rationale;
  std::string parent;     // Candidate digest; empty: the baseline.
  std::string technique;  // Free tag: "tuner/greedy", "playbook/vector-loads".
};

// How a proposal fared.
struct Outcome {
  std::string candidate_digest;
  TunableValues values;
  VerdictRecord verdict;        // kNoWin with reason "contender" while on the way.
  std::optional<double> ratio;  // Speed-up over the denominator; unset when not measured.
  std::string technique;        // As proposed; lets a replayed history credit the right strategy.
};

// Where proposals come from. Used from one thread at a time. State is rebuilt on resume by
// replaying the job's outcomes in order into a proposer made with the same seed, so Propose must be
// a function of seed and observed outcomes alone.
class Proposer {
 public:
  virtual ~Proposer() = default;
  virtual std::string_view name() const = 0;  // "tuner", "llm", "external", "replay"
  // Up to `max` new proposals, never one that was proposed before. Empty: none for now.
  virtual absl::StatusOr<std::vector<Proposal>> Propose(int max, std::stop_token stop) = 0;
  virtual void Observe(const Outcome& outcome) = 0;
  // Asks for up to `budget` further values of a kernel's tunables, which came from elsewhere.
  // Ignored by proposers that cannot.
  virtual void Fit(const KernelSpec& kernel, const std::string& digest, std::int64_t budget) {
    static_cast<void>(kernel);
    static_cast<void>(digest);
    static_cast<void>(budget);
  }
  // No proposal will ever come again.
  virtual bool exhausted() const = 0;
  // Why, for the job's message.
  virtual std::string why_exhausted() const { return "every proposal was tried"; }
};

}  // namespace fettle
