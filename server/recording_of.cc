// SPDX-License-Identifier: Apache-2.0
#include "server/recording_of.h"

#include <map>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "core/text.h"
#include "server/job_kernels.h"
#include "store/agent_call_store.h"
#include "store/candidate_store.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr int kPage = 200;
constexpr std::string_view kModelKind = "model/";

absl::StatusOr<json> ParseStored(const std::string& text) {
  json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) return absl::DataLossError("a stored call is not JSON");
  return document;
}

absl::Status AddCalls(const Store& store, const JobRow& job, Recording& recording) {
  std::int64_t after = 0;
  while (true) {
    std::vector<AgentCallRow> rows;
    FETTLE_RETURN_IF_ERROR(store.Read([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(rows, ListAgentCalls(db, job.id, after, kPage));
      return absl::OkStatus();
    }));
    if (rows.empty()) return absl::OkStatus();
    after = rows.back().sequence;
    for (const AgentCallRow& row : rows) {
      if (row.state != call_state::kAnswered || !row.kind.starts_with(kModelKind)) continue;
      RecordedCall call;
      call.role = row.kind.substr(kModelKind.size());
      AgentCallRow whole;
      const absl::Status read = store.Read([&](Connection& db) -> absl::Status {
        FETTLE_ASSIGN_OR_RETURN(whole, ReadAgentCall(db, job.id, row.sequence));
        return absl::OkStatus();
      });
      if (!read.ok()) return read;
      FETTLE_ASSIGN_OR_RETURN(const json request, ParseStored(whole.request));
      FETTLE_ASSIGN_OR_RETURN(const json reply, ParseStored(whole.reply));
      call.key = RequestKey(call.role, request);
      call.loose = LooseKey(call.role, request);
      FETTLE_ASSIGN_OR_RETURN(call.reply, LlmReplyFromJson(reply));
      recording.calls.push_back(std::move(call));
    }
  }
}

}  // namespace

absl::StatusOr<Recording> RecordingOf(const Store& store, const JobRow& job) {
  Recording recording;
  recording.task = job.task_name;
  recording.target = job.target;
  recording.source =
      fmt::format("job {} of proposer {} on {}", job.id, job.proposer, job.device_model);
  FETTLE_RETURN_IF_ERROR(AddCalls(store, job, recording));
  std::map<std::string, int> index;
  std::int64_t after = 0;
  while (true) {
    std::vector<CandidateRow> rows;
    FETTLE_RETURN_IF_ERROR(store.Read([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(rows, ListCandidates(db, job.id, "", after, kPage));
      return absl::OkStatus();
    }));
    if (rows.empty()) return recording;
    after = rows.back().ordinal;
    for (const CandidateRow& row : rows) {
      if (row.stage != job_stage::kSearch) continue;
      FETTLE_ASSIGN_OR_RETURN(const KernelUnderTest kernel, LoadKernel(store, row));
      RecordedProposal proposal;
      const auto parent = index.find(row.parent);
      proposal.parent = parent == index.end() ? -1 : parent->second;
      proposal.kernel = ToJson(kernel.kernel);
      proposal.technique = row.technique;
      proposal.rationale = row.rationale;
      index[row.digest] = static_cast<int>(recording.proposals.size());
      recording.proposals.push_back(std::move(proposal));
    }
  }
}

}  // namespace fettle
