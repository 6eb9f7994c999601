// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include <absl/status/status.h>

#include "agent/diagnosis.h"
#include "agent/fit_summary.h"
#include "agent/kernel_change.h"
#include "agent/loop_host.h"
#include "agent/prompts.h"
#include "agent/search_tree.h"

namespace fettle {

struct LoopOptions {
  std::uint64_t seed = 1;
  std::int64_t max_output_tokens = 16'000;
  std::size_t max_conversation_bytes = 120'000;  // Of a request as it is sent; RequestBytes.
  bool counters = true;                          // Of parents on a GPU, where its profiler works.
  int max_turns = 10;                            // Answers of the writer in one round.
  int max_calls = 4;                             // Tool calls that count in one answer.
  int max_repairs = 3;                           // Of one change, after a failure.
  int max_slow_repairs = 1;                      // After a regression.
  int max_failed_rounds = 8;  // In a row without a judged candidate; then the loop ends.
  std::int64_t fit = 0;       // Values of a proposal's tunables that the tuner tries; 0: none.
  TreeOptions tree;
};

// The loop around a model: diagnose, plan, write, repair, and again. Code decides what happens
// next; the model answers questions. All its state follows from the seed and from what the host
// answers, so that running it again with the recorded answers leads to the same place.
class AgentLoop {
 public:
  // `context`'s task and card and `host` must outlive the loop. `denominator` is what candidates
  // are compared with.
  AgentLoop(PromptContext context, KernelSpec denominator, LoopHost& host, LoopOptions options);

  // Runs until there is nothing left to do (OK; see reason()), `stop` (kCancelled) or an error that
  // no further round would mend (the host's, with what was asked).
  absl::Status Run(std::stop_token stop);
  // Why it ended by itself: the budget, or a model that gave nothing usable.
  const std::string& reason() const { return reason_; }
  int rounds() const { return rounds_; }
  const SearchTree& tree() const { return tree_; }

 private:
  // One conversation with the writer.
  struct Conversation {
    const TreeNode* parent = nullptr;
    KernelSpec parent_kernel;
    KernelSpec last;  // What edits refer to: what was handed in last.
    ModelPlan plan;
    LlmRequest request;
    int repairs = 0, slow_repairs = 0, duplicates = 0, prose = 0;
    bool judged = false;  // A candidate came of it.
    bool buggy = false;   // The last one does not work, and the writer has not given up.
    bool over = false;
    std::string failure;  // Why it ended without one that is right.
  };

  absl::Status Round(std::stop_token stop);
  absl::StatusOr<LlmReply> Ask(ModelRole role, const LlmRequest& request,
                               const std::stop_token& stop);
  absl::StatusOr<KernelSpec> KernelOf(const TreeNode& node);
  absl::StatusOr<Diagnosis> DiagnosisOf(const TreeNode& node, const KernelSpec& kernel,
                                        std::stop_token stop);
  absl::StatusOr<UnitResult> Measured(const TreeNode& node, const KernelSpec& kernel,
                                      std::stop_token stop);
  void Keep(const std::string& digest, Diagnosis diagnosis);
  absl::Status Count(const TreeNode& node, const KernelSpec& kernel, Diagnosis& diagnosis,
                     std::stop_token stop);
  // Unset: the model gave none.
  absl::StatusOr<std::optional<ModelPlan>> Plan(const SearchTree::Choice& choice,
                                                const KernelSpec& kernel, std::stop_token stop);
  absl::Status Write(Conversation& talk, std::stop_token stop);
  absl::StatusOr<LlmToolResult> Answer(Conversation& talk, const LlmToolCall& call,
                                       std::stop_token stop);
  absl::StatusOr<LlmToolResult> Propose(Conversation& talk, const LlmToolCall& call,
                                        const KernelSpec& kernel, std::stop_token stop);
  absl::StatusOr<FitSummary> Fit(Conversation& talk, const Attempt& base, const KernelSpec& kernel,
                                 std::stop_token stop);
  absl::StatusOr<KernelSpec> Changed(Conversation& talk, const nlohmann::json& arguments);
  std::string SourcePage(Conversation& talk, const nlohmann::json& arguments);
  // `base`: the candidate whose tunables were fitted; empty: the model wrote it.
  void Record(const Conversation& talk, const Attempt& attempt, double expected,
              const std::string& base);
  nlohmann::json Transcript(const Conversation& talk) const;
  std::size_t ResultBytes() const;  // Of a tool's result, at most.

  const PromptContext context_;
  const KernelSpec denominator_;
  LoopHost& host_;
  const LoopOptions options_;
  const std::string system_;
  SearchTree tree_;
  std::map<std::string, Diagnosis> diagnoses_;  // By candidate; of usable ones, the newest.
  std::deque<std::string> kept_;                // Their digests, oldest first.
  std::set<std::string> counted_;               // Candidates whose counters were asked for.
  bool counts_ = true;                          // False once there are none to be had.
  std::optional<ModelPlan> kept_plan_;          // Promising, but its code was buggy.
  std::string kept_parent_;
  nlohmann::json last_plan_;  // Question and answer, for the transcript.
  int rounds_ = 0;
  int failed_rounds_ = 0;
  bool recalled_ = false;  // The last answer of this round is of an earlier run.
  std::string last_failure_;
  std::string reason_;
};

}  // namespace fettle
