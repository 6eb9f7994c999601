// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "agent/llm/llm_client.h"
#include "agent/model_catalog.h"
#include "core/clock.h"
#include "store/records.h"
#include "store/store.h"

namespace fettle {

// What is asked outside. Found again by its kind and by what it says: not by the model that is
// asked, nor by how long its answer may be, so that neither makes a paid answer worthless.
struct JournalQuestion {
  JournalQuestion(std::string kind, nlohmann::json document);

  std::string kind, text, digest;
};

// How a call ended.
struct JournalOutcome {
  absl::Status failure;  // OK: it was answered.
  nlohmann::json answer;
};

// A job's record of what was asked outside and what came back. Each call is stored, with its budget
// reserved, before it is sent, and settled when it ends; calls in flight at a crash stay charged in
// full. After a restart the outcomes that had arrived are handed out again, each once, to the same
// questions in the same order. Thread-safe.
class LlmJournal {
 public:
  // `store` and `clock` outlive it.
  LlmJournal(Store& store, Clock& clock, std::string job_id);

  // Reads the outcomes of an earlier run and gives up what was in flight then.
  absl::Status Load();

  // The stored outcome of this question that was not handed out yet: an answer, or a failure that
  // the loop went on from.
  absl::StatusOr<std::optional<JournalOutcome>> Recall(const JournalQuestion& question);
  // Stores a call that is about to be sent, charged at `bound` and `device_ms`. kAborted: the job's
  // budget of tokens or money does not allow it.
  absl::StatusOr<AgentCallRow> Begin(const JournalQuestion& question, const std::string& model,
                                     const TokenCost& bound, std::int64_t device_ms = 0);
  // The answer is on the disk on return, so that it is never paid for twice. What could not be
  // stored is kept, and stored by Begin, Failed or Flush, whichever comes first.
  absl::Status Answered(AgentCallRow row, const nlohmann::json& answer, const TokenCost& cost,
                        std::int64_t device_ms);
  // `charged`: what an answer that never came in full is taken to have cost. `goes_on`: what is
  // asked next depends on this failure, so that it is recalled; else the question is asked again.
  absl::Status Failed(AgentCallRow row, const absl::Status& why, const TokenCost& charged,
                      bool goes_on);
  // The conversation that a candidate came from; stored by whatever is stored next.
  void Transcript(std::string candidate_digest, std::string blob);
  // Stores what is not stored yet. To be called before anything that takes time.
  absl::Status Flush();

 private:
  // One transaction: what is waiting, then `body`.
  absl::Status Write(const std::function<absl::Status(Connection&)>& body);

  Store& store_;
  Clock& clock_;
  const std::string job_id_;
  std::mutex mutex_;
  // Ended calls by question, oldest first. Guarded by mutex_.
  std::map<std::string, std::deque<std::int64_t>> outcomes_;
  // Guarded by mutex_. Ended calls and transcripts that are not stored yet, oldest first.
  std::deque<AgentCallRow> ended_;
  std::deque<std::pair<std::string, std::string>> transcripts_;
};

// A model whose every call goes through the journal. One attempt is one call: a client that retries
// belongs around it.
class JournaledClient final : public LlmClient {
 public:
  // All outlive it. `settled` is called whenever what a call costs has changed.
  JournaledClient(LlmClient& inner, LlmJournal& journal, ModelSpec model, std::string kind,
                  std::function<void()> settled);
  std::string_view provider() const override { return inner_.provider(); }
  absl::StatusOr<LlmReply> Complete(const LlmRequest& request, std::stop_token stop) override;
  // Whether the last outcome of Complete was one of an earlier run.
  bool recalled() const { return recalled_; }

 private:
  LlmClient& inner_;
  LlmJournal& journal_;
  const ModelSpec model_;
  const std::string kind_;
  const std::function<void()> settled_;
  std::atomic<bool> recalled_ = false;
};

}  // namespace fettle
