// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "agent/agent_loop.h"
#include "agent/hardware_card.h"
#include "agent/llm/retry.h"
#include "agent/proposer.h"
#include "agent/recording.h"
#include "server/agent_services.h"
#include "server/job_options.h"
#include "server/llm_journal.h"

namespace fettle {

// The proposers `llm`, `hybrid` and, over recorded conversations, `replay`: the agent's loop on a
// thread of its own, so that a slow model keeps nobody waiting. The job's thread takes what it
// proposes and tells it the outcomes.
class LlmProposer final : public Proposer, private LoopHost {
 public:
  struct Setup {
    std::string kind;  // "llm", "hybrid", "replay".
    ModelSpec planner, writer;
    std::string planner_key, writer_key;  // Secrets; never stored.
    std::optional<Recording> recording;   // replay.
    LoopOptions loop;
  };
  // `task` and what `services` points to outlive it.
  LlmProposer(Setup setup, const Task& task, Target target, JobServices services);
  ~LlmProposer() override;

  // Builds the clients. kInvalidArgument names what is wrong with a model.
  absl::Status Prepare();

  std::string_view name() const override { return setup_.kind; }
  absl::StatusOr<std::vector<Proposal>> Propose(int max, std::stop_token stop) override;
  void Observe(const Outcome& outcome) override;
  bool exhausted() const override;
  std::string why_exhausted() const override;

 private:
  // LoopHost, on the loop's thread.
  absl::StatusOr<LlmReply> Ask(ModelRole role, const LlmRequest& request,
                               std::stop_token stop) override;
  bool recalled() const override { return recalled_; }
  absl::StatusOr<UnitResult> Try(const KernelSpec& kernel, const std::string& mode,
                                 std::stop_token stop) override;
  absl::StatusOr<std::vector<Attempt>> Evaluate(const std::vector<Proposal>& proposals,
                                                const nlohmann::json& transcript,
                                                std::stop_token stop) override;
  absl::StatusOr<KernelSpec> Load(const std::string& digest) override;
  void Note(const std::string& code, const std::string& text) override;

  struct Model {
    std::unique_ptr<LlmClient> http, retrying;
    std::unique_ptr<JournaledClient> journaled;  // Null: a replay.
    LlmClient* outermost = nullptr;
    ModelSpec spec;
  };
  absl::Status MakeModel(const ModelSpec& spec, const std::string& key, ModelRole role,
                         Model& model);
  void Run(std::stop_token stop);
  absl::Status RunLoop(std::stop_token stop);
  absl::StatusOr<JobRow> Job() const;
  absl::Status KeepTranscript(const std::vector<std::string>& digests,
                              const nlohmann::json& transcript);
  // Those of the candidates that are judged and stored.
  absl::StatusOr<std::set<std::string>> Judged(const std::vector<std::string>& digests) const;
  // A try that could not be made: stored, so that it fails alike after a restart. Returns `why`.
  absl::Status Unanswered(const JournalQuestion& question, const absl::Status& why);
  absl::StatusOr<Attempt> AttemptOf(const std::string& digest);

  const Setup setup_;
  const Task& task_;
  const Target target_;
  const JobServices services_;
  std::optional<HardwareCard> card_;
  LlmJournal journal_;
  Model planner_, writer_;
  bool recalled_ = false;  // Of the loop's thread.

  mutable std::mutex mutex_;
  std::condition_variable_any judged_wake_;
  std::deque<Proposal> ready_;    // Guarded by mutex_. For the job.
  std::set<std::string> judged_;  // Guarded by mutex_. Digests; not those told to the loop.
  bool ended_ = false;            // Guarded by mutex_.
  std::string reason_;            // Guarded by mutex_.
  absl::Status failure_;          // Guarded by mutex_.
  std::jthread thread_;           // Last; started by the first Propose.
};

// Makes the proposer that `kind` names from the job's options. kInvalidArgument or kNotFound names
// the option, the model or the recording.
absl::StatusOr<std::unique_ptr<Proposer>> MakeModelProposer(const std::string& kind,
                                                            const Task& task, const Target& target,
                                                            const ProposerOptions& options);

}  // namespace fettle
