// SPDX-License-Identifier: Apache-2.0
#include "agent/recording.h"

#include <cctype>
#include <set>

#include <fmt/format.h>

#include "core/digest.h"
#include "core/json_reader.h"
#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace fettle {
namespace {

using nlohmann::json;

std::string RequestText(json document) {
  // What the provider adds to its own turns says nothing about the question.
  if (document.contains("messages") && document["messages"].is_array()) {
    for (json& message : document["messages"]) {
      if (message.is_object()) message.erase("raw");
    }
  }
  document.erase("model");
  return document.dump(-1, ' ', false, kReplaceInvalid);
}

class ProposalReplay final : public Proposer {
 public:
  ProposalReplay(std::vector<Proposal> proposals, std::vector<std::string> digests,
                 std::string source)
      : proposals_(std::move(proposals)),
        digests_(std::move(digests)),
        source_(std::move(source)) {}

  std::string_view name() const override { return "replay"; }
  absl::StatusOr<std::vector<Proposal>> Propose(int, std::stop_token) override {
    while (next_ < proposals_.size() && judged_.contains(digests_[next_])) ++next_;
    // The next one builds on this one's verdict, as it did when it was recorded.
    if (next_ >= proposals_.size() || waiting_) return std::vector<Proposal>();
    waiting_ = true;
    return std::vector<Proposal>{proposals_[next_]};
  }
  void Observe(const Outcome& outcome) override {
    judged_.insert(outcome.candidate_digest);
    if (next_ < proposals_.size() && outcome.candidate_digest == digests_[next_]) waiting_ = false;
  }
  bool exhausted() const override {
    for (const std::string& digest : digests_) {
      if (!judged_.contains(digest)) return false;
    }
    return true;
  }
  std::string why_exhausted() const override {
    return fmt::format("the replay of a recording is over ({})", source_);
  }

 private:
  const std::vector<Proposal> proposals_;
  const std::vector<std::string> digests_;
  const std::string source_;
  std::set<std::string> judged_;
  std::size_t next_ = 0;
  bool waiting_ = false;
};

}  // namespace

absl::StatusOr<Recording> ParseRecording(std::string_view json_text) {
  const json document = ParseJson(json_text);
  JsonReader reader(document, "recording");
  Recording recording;
  std::int64_t format = 0;
  reader.Get("format", format);
  reader.Get("task", recording.task);
  reader.Get("target", recording.target);
  reader.Get("source", recording.source);
  reader.ForEach("calls", [&](const json& entry) -> absl::Status {
    JsonReader inner(entry, "recording.calls");
    RecordedCall call;
    inner.Get("role", call.role);
    inner.Get("key", call.key);
    inner.Get("loose", call.loose);
    inner.Nested("reply", call.reply, LlmReplyFromJson);
    FETTLE_RETURN_IF_ERROR(inner.Finish());
    recording.calls.push_back(std::move(call));
    return absl::OkStatus();
  });
  reader.ForEach("proposals", [&](const json& entry) -> absl::Status {
    JsonReader inner(entry, "recording.proposals");
    RecordedProposal proposal;
    inner.Get("parent", proposal.parent);
    inner.Get("technique", proposal.technique);
    inner.Get("rationale", proposal.rationale);
    inner.Get("kernel", proposal.kernel);
    FETTLE_RETURN_IF_ERROR(inner.Finish());
    if (proposal.parent >= static_cast<int>(recording.proposals.size())) {
      return absl::InvalidArgumentError("recording.proposals.parent: must name an earlier one");
    }
    recording.proposals.push_back(std::move(proposal));
    return absl::OkStatus();
  });
  if (reader.ok() && format != 1) reader.Fail("format", "must be 1");
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return recording;
}

json ToJson(const Recording& recording) {
  json calls = json::array(), proposals = json::array();
  for (const RecordedCall& call : recording.calls) {
    calls.push_back({{"role", call.role},
                     {"key", call.key},
                     {"loose", call.loose},
                     {"reply", ToJson(call.reply)}});
  }
  for (const RecordedProposal& one : recording.proposals) {
    proposals.push_back({{"parent", one.parent},
                         {"technique", one.technique},
                         {"rationale", one.rationale},
                         {"kernel", one.kernel}});
  }
  return {{"format", 1},
          {"task", recording.task},
          {"target", recording.target},
          {"source", recording.source},
          {"calls", std::move(calls)},
          {"proposals", std::move(proposals)}};
}

std::string RequestKey(std::string_view role, json request) {
  return Sha256Hex(std::string(role) + '\n' + RequestText(std::move(request)));
}

std::string LooseKey(std::string_view role, json request) {
  std::string text;
  bool in_number = false;
  for (const char c : RequestText(std::move(request))) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (digit || (in_number && c == '.')) {
      in_number = true;
      continue;
    }
    in_number = false;
    text += c;
  }
  return Sha256Hex(std::string(role) + '\n' + text);
}

ReplayClient::ReplayClient(std::vector<RecordedCall> calls, std::string role)
    : calls_(std::move(calls)), role_(std::move(role)), used_(calls_.size(), false) {}

absl::StatusOr<LlmReply> ReplayClient::Complete(const LlmRequest& request, std::stop_token) {
  const std::string key = RequestKey(role_, ToJson(request));
  const std::string loose = LooseKey(role_, ToJson(request));
  const std::lock_guard lock(mutex_);
  const auto take = [&](const auto& fits) -> const RecordedCall* {
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (used_[i] || calls_[i].role != role_ || !fits(calls_[i])) continue;
      used_[i] = true;
      return &calls_[i];
    }
    return nullptr;
  };
  const RecordedCall* found = take([&](const RecordedCall& call) { return call.key == key; });
  if (found == nullptr) {
    found = take([&](const RecordedCall& call) { return call.loose == loose; });
  }
  if (found == nullptr) found = take([](const RecordedCall&) { return true; });
  if (found == nullptr) {
    return absl::NotFoundError(fmt::format("the recording has no further answer to '{}'", role_));
  }
  return found->reply;
}

absl::StatusOr<std::unique_ptr<Proposer>> MakeProposalReplay(const Task& task,
                                                             const std::string& target,
                                                             const Recording& recording) {
  std::vector<Proposal> proposals;
  std::vector<std::string> digests;
  for (const RecordedProposal& recorded : recording.proposals) {
    std::vector<TaskProblem> problems;
    absl::StatusOr<KernelSpec> kernel = task.ParseKernelSpec(recorded.kernel, &problems);
    if (!kernel.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("replay proposal {}: {}", proposals.size(),
                      problems.empty() ? StatusText(kernel.status()) : FormatProblems(problems)));
    }
    Proposal proposal;
    proposal.kernel = *std::move(kernel);
    proposal.values = proposal.kernel.values;
    proposal.technique = recorded.technique;
    proposal.rationale =
        fmt::format("(replay of a recording: {}) {}", recording.source, recorded.rationale);
    if (recorded.parent >= 0) proposal.parent = digests[static_cast<std::size_t>(recorded.parent)];
    digests.push_back(CandidateDigest(task.digest(), target, proposal.kernel, proposal.values));
    proposals.push_back(std::move(proposal));
  }
  return std::make_unique<ProposalReplay>(std::move(proposals), std::move(digests),
                                          recording.source);
}

}  // namespace fettle
