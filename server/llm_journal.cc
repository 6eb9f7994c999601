// SPDX-License-Identifier: Apache-2.0
#include "server/llm_journal.h"

#include <fmt/format.h>

#include "core/digest.h"
#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "server/limits.h"
#include "store/agent_call_store.h"
#include "store/job_store.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr int kPage = 500;

std::string Compact(const json& document) { return document.dump(-1, ' ', false, kReplaceInvalid); }

absl::Status OverBudget(const char* what, double left, double needed) {
  return absl::AbortedError(
      fmt::format("the budget of {} is spent: {:.6g} left, and the next call may cost {:.6g}", what,
                  left, needed));
}

}  // namespace

LlmJournal::LlmJournal(Store& store, Clock& clock, std::string job_id)
    : store_(store), clock_(clock), job_id_(std::move(job_id)) {}

JournalQuestion::JournalQuestion(std::string kind_of, json document)
    : kind(std::move(kind_of)), text(Compact(document)) {
  document.erase("model");
  document.erase("max_output_tokens");
  digest = Sha256Hex(kind + '\n' + Compact(document));
}

absl::Status LlmJournal::Load() {
  FETTLE_RETURN_IF_ERROR(
      store_.Write([&](Connection& db) { return LoseAgentCalls(db, job_id_, clock_.NowNs()); }));
  std::int64_t after = 0;
  while (true) {
    std::vector<AgentCallRow> rows;
    FETTLE_RETURN_IF_ERROR(store_.Read([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(rows, ListAgentCalls(db, job_id_, after, kPage));
      return absl::OkStatus();
    }));
    if (rows.empty()) return absl::OkStatus();
    after = rows.back().sequence;
    const std::lock_guard lock(mutex_);
    for (const AgentCallRow& row : rows) {
      if (row.state == call_state::kAnswered || row.state == call_state::kFailed) {
        outcomes_[row.request_digest].push_back(row.sequence);
      }
    }
  }
}

absl::StatusOr<std::optional<JournalOutcome>> LlmJournal::Recall(const JournalQuestion& question) {
  while (true) {
    std::int64_t sequence = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto found = outcomes_.find(question.digest);
      if (found == outcomes_.end()) return std::optional<JournalOutcome>();
      sequence = found->second.front();
      found->second.pop_front();
      if (found->second.empty()) outcomes_.erase(found);
    }
    AgentCallRow row;
    FETTLE_RETURN_IF_ERROR(store_.Read([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(row, ReadAgentCall(db, job_id_, sequence));
      return absl::OkStatus();
    }));
    const bool failed = row.state == call_state::kFailed;
    if (failed && row.reply.empty()) continue;  // It was asked again.
    JournalOutcome outcome;
    outcome.answer = json::parse(row.reply, nullptr, /*allow_exceptions=*/false);
    if (outcome.answer.is_discarded()) {
      return absl::DataLossError(fmt::format("the stored answer {} is not JSON", sequence));
    }
    if (failed) {
      outcome.failure =
          absl::Status(static_cast<absl::StatusCode>(IntegerAt(outcome.answer, "failed_with")),
                       TextAt(outcome.answer, "message"));
      if (outcome.failure.ok()) continue;
    }
    return std::optional<JournalOutcome>(std::move(outcome));
  }
}

absl::StatusOr<AgentCallRow> LlmJournal::Begin(const JournalQuestion& question,
                                               const std::string& model, const TokenCost& bound,
                                               std::int64_t device_ms) {
  AgentCallRow row;
  row.job_id = job_id_;
  row.kind = question.kind;
  row.model = model;
  row.request_digest = question.digest;
  row.tokens = bound.tokens;
  row.usd = bound.usd;
  row.device_ms = device_ms;
  row.created_ns = clock_.NowNs();
  row.request = question.text;
  const absl::Status stored = Write([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(const std::optional<JobRow> job, FindJob(db, job_id_));
    if (!job.has_value()) return absl::NotFoundError("the job is gone");
    FETTLE_ASSIGN_OR_RETURN(const AgentCharges spent, SumAgentCalls(db, job_id_));
    if (job->budget.tokens > 0 && spent.tokens + bound.tokens > job->budget.tokens) {
      return OverBudget("tokens", static_cast<double>(job->budget.tokens - spent.tokens),
                        static_cast<double>(bound.tokens));
    }
    if (job->budget.usd > 0 && spent.usd + bound.usd > job->budget.usd) {
      return OverBudget("USD", job->budget.usd - spent.usd, bound.usd);
    }
    return InsertAgentCall(db, row);
  });
  if (!stored.ok()) return stored;
  return row;
}

absl::Status LlmJournal::Write(const std::function<absl::Status(Connection&)>& body) {
  std::deque<AgentCallRow> ended;
  std::deque<std::pair<std::string, std::string>> transcripts;
  {
    const std::lock_guard lock(mutex_);
    ended.swap(ended_);
    transcripts.swap(transcripts_);
  }
  const absl::Status stored = store_.Write([&](Connection& db) -> absl::Status {
    for (const AgentCallRow& row : ended) FETTLE_RETURN_IF_ERROR(UpdateAgentCall(db, row));
    for (const auto& [digest, blob] : transcripts) {
      FETTLE_RETURN_IF_ERROR(PutTranscript(db, job_id_, digest, blob));
    }
    return body(db);
  });
  if (!stored.ok()) {
    const std::lock_guard lock(mutex_);
    ended_.insert(ended_.begin(), ended.begin(), ended.end());
    transcripts_.insert(transcripts_.begin(), transcripts.begin(), transcripts.end());
  }
  return stored;
}

absl::Status LlmJournal::Flush() {
  {
    const std::lock_guard lock(mutex_);
    if (ended_.empty() && transcripts_.empty()) return absl::OkStatus();
  }
  return Write([](Connection&) { return absl::OkStatus(); });
}

void LlmJournal::Transcript(std::string candidate_digest, std::string blob) {
  const std::lock_guard lock(mutex_);
  transcripts_.emplace_back(std::move(candidate_digest), std::move(blob));
}

absl::Status LlmJournal::Answered(AgentCallRow row, const json& answer, const TokenCost& cost,
                                  std::int64_t device_ms) {
  row.reply = Compact(answer);
  row.state = call_state::kAnswered;
  row.tokens = cost.tokens;
  row.usd = cost.usd;
  row.device_ms = device_ms;
  row.ended_ns = clock_.NowNs();
  {
    const std::lock_guard lock(mutex_);
    ended_.push_back(std::move(row));
  }
  return Flush();
}

absl::Status LlmJournal::Failed(AgentCallRow row, const absl::Status& why, const TokenCost& charged,
                                bool goes_on) {
  if (goes_on) {
    row.reply = Compact(
        {{"failed_with", static_cast<int>(why.code())}, {"message", std::string(why.message())}});
  }
  row.state = call_state::kFailed;
  row.error = CutText(StatusText(why), limits::kMaxErrorMessageBytes);
  row.tokens = charged.tokens;
  row.usd = charged.usd;
  row.ended_ns = clock_.NowNs();
  return Write([&](Connection& db) { return UpdateAgentCall(db, row); });
}

JournaledClient::JournaledClient(LlmClient& inner, LlmJournal& journal, ModelSpec model,
                                 std::string kind, std::function<void()> settled)
    : inner_(inner),
      journal_(journal),
      model_(std::move(model)),
      kind_(std::move(kind)),
      settled_(std::move(settled)) {}

absl::StatusOr<LlmReply> JournaledClient::Complete(const LlmRequest& request,
                                                   std::stop_token stop) {
  const JournalQuestion question(kind_, ToJson(request));
  FETTLE_ASSIGN_OR_RETURN(const std::optional<JournalOutcome> recalled, journal_.Recall(question));
  recalled_ = recalled.has_value();
  if (recalled.has_value()) {
    if (!recalled->failure.ok()) return recalled->failure;
    return LlmReplyFromJson(recalled->answer);
  }
  const TokenCost bound = UpperBound(model_, request);
  FETTLE_ASSIGN_OR_RETURN(const AgentCallRow row, journal_.Begin(question, model_.name, bound));
  settled_();  // Reserved.
  absl::StatusOr<LlmReply> reply = inner_.Complete(request, std::move(stop));
  absl::Status stored;
  if (reply.ok()) {
    // Where it cannot be stored now, the next call is not paid for before it is: Begin stores both.
    journal_.Answered(row, ToJson(*reply), CostOf(model_, request, *reply, bound), 0).IgnoreError();
  } else {
    // What the provider refused costs nothing; an answer that broke off may have cost all.
    // One that is too long is what it is, and the loop goes on; others are repeated, now or after a
    // resume.
    stored = journal_.Failed(row, reply.status(), IsUnbilled(reply.status()) ? TokenCost() : bound,
                             /*goes_on=*/absl::IsOutOfRange(reply.status()));
  }
  settled_();
  if (!stored.ok()) return stored;
  return reply;
}

}  // namespace fettle
