// SPDX-License-Identifier: Apache-2.0
#include "server/llm_journal.h"

#include <fmt/format.h>

#include "core/digest.h"
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

std::string LlmJournal::DigestOf(const std::string& kind, const std::string& question) {
  return Sha256Hex(kind + '\n' + question);
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
      if (row.state == call_state::kAnswered) answers_[row.request_digest].push_back(row.sequence);
    }
  }
}

absl::StatusOr<std::optional<json>> LlmJournal::Recall(const std::string& kind,
                                                       const json& question) {
  const std::string digest = DigestOf(kind, Compact(question));
  std::int64_t sequence = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = answers_.find(digest);
    if (found == answers_.end()) return std::optional<json>();
    sequence = found->second.front();
    found->second.pop_front();
    if (found->second.empty()) answers_.erase(found);
  }
  AgentCallRow row;
  FETTLE_RETURN_IF_ERROR(store_.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(row, ReadAgentCall(db, job_id_, sequence));
    return absl::OkStatus();
  }));
  json answer = json::parse(row.reply, nullptr, /*allow_exceptions=*/false);
  if (answer.is_discarded()) {
    return absl::DataLossError(fmt::format("the stored answer {} is not JSON", sequence));
  }
  return std::optional<json>(std::move(answer));
}

absl::StatusOr<AgentCallRow> LlmJournal::Begin(const std::string& kind, const std::string& model,
                                               const json& question, const TokenCost& bound,
                                               std::int64_t device_ms) {
  const std::string text = Compact(question);
  AgentCallRow row;
  row.job_id = job_id_;
  row.kind = kind;
  row.model = model;
  row.request_digest = DigestOf(kind, text);
  row.tokens = bound.tokens;
  row.usd = bound.usd;
  row.device_ms = device_ms;
  row.created_ns = clock_.NowNs();
  row.request = text;
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

void LlmJournal::Answered(AgentCallRow row, const json& answer, const TokenCost& cost,
                          std::int64_t device_ms) {
  row.reply = Compact(answer);
  row.state = call_state::kAnswered;
  row.tokens = cost.tokens;
  row.usd = cost.usd;
  row.device_ms = device_ms;
  row.ended_ns = clock_.NowNs();
  const std::lock_guard lock(mutex_);
  ended_.push_back(std::move(row));
}

absl::Status LlmJournal::Failed(AgentCallRow row, const absl::Status& why,
                                const TokenCost& charged) {
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
  const json question = ToJson(request);
  FETTLE_ASSIGN_OR_RETURN(const std::optional<json> recalled, journal_.Recall(kind_, question));
  if (recalled.has_value()) return LlmReplyFromJson(*recalled);
  const TokenCost bound = UpperBound(model_, request);
  FETTLE_ASSIGN_OR_RETURN(const AgentCallRow row,
                          journal_.Begin(kind_, model_.name, question, bound));
  settled_();  // Reserved.
  absl::StatusOr<LlmReply> reply = inner_.Complete(request, std::move(stop));
  absl::Status stored;
  if (reply.ok()) {
    journal_.Answered(row, ToJson(*reply), CostOf(model_, request, *reply, bound), 0);
  } else {
    // What the provider refused costs nothing; an answer that broke off may have cost all.
    stored = journal_.Failed(row, reply.status(), IsUnbilled(reply.status()) ? TokenCost() : bound);
  }
  settled_();
  if (!stored.ok()) return stored;
  return reply;
}

}  // namespace fettle
