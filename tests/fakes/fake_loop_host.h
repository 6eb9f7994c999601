// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/feedback.h"
#include "agent/loop_host.h"

namespace fettle {

// A job and a model in memory. Models answer what a script says; a kernel's speed is what its
// source says ("// speed 1.5"), a source with "broken" does not compile, one with "wrong" is wrong.
class FakeLoopHost final : public LoopHost {
 public:
  using Script = std::function<absl::StatusOr<LlmReply>(ModelRole, const LlmRequest&)>;
  FakeLoopHost(const Task& task, Target target, Script script)
      : task_(task), target_(std::move(target)), script_(std::move(script)) {}

  absl::StatusOr<LlmReply> Ask(ModelRole role, const LlmRequest& request,
                               std::stop_token) override {
    asked.push_back(request);
    return script_(role, request);
  }
  bool recalled() const override { return !asked.empty() && asked.size() <= recalled_calls; }
  absl::StatusOr<UnitResult> Try(const KernelSpec& kernel, const std::string& mode,
                                 std::stop_token) override {
    tried.push_back(mode);
    UnitResult result = ResultOf(kernel);
    if (mode == "counters") {
      result.counters = counters;
      counted.push_back(kernel.source);
    }
    return result;
  }
  absl::StatusOr<std::vector<Attempt>> Evaluate(const std::vector<Proposal>& proposals,
                                                const nlohmann::json& transcript,
                                                std::stop_token) override {
    std::vector<Attempt> attempts;
    if (!transcript.is_null()) transcripts.push_back(transcript);
    for (const Proposal& proposal : proposals) {
      Attempt attempt;
      attempt.digest =
          CandidateDigest(task_.digest(), target_.name, proposal.kernel, proposal.values);
      attempt.evaluation = ResultOf(proposal.kernel);
      if (attempt.evaluation.verdict.has_value()) {
        attempt.verdict = *attempt.evaluation.verdict;
      } else {
        attempt.ratio = SpeedOf(proposal.kernel);
        attempt.verdict.verdict = attempt.ratio > best_ * 1.01 ? Verdict::kWin : Verdict::kNoWin;
        best_ = std::max(best_, attempt.ratio);
      }
      FeedbackInput input;
      input.verdict = &attempt.verdict;
      input.ratio = attempt.ratio;
      input.evaluation = &attempt.evaluation;
      attempt.feedback = MakeFeedback(input);
      kernels_[attempt.digest] = proposal.kernel;
      evaluated.push_back(proposal);
      attempts.push_back(std::move(attempt));
    }
    return attempts;
  }
  absl::StatusOr<KernelSpec> Load(const std::string& digest) override {
    const auto found = kernels_.find(digest);
    if (found == kernels_.end()) return absl::NotFoundError("no candidate " + digest);
    return found->second;
  }
  void Note(const std::string& code, const std::string& text) override {
    notes.push_back(code + ": " + text);
  }

  static double SpeedOf(const KernelSpec& kernel) {
    const std::size_t at = kernel.source.find("\"speed ");
    double speed = at == std::string::npos ? 1 : std::stod(kernel.source.substr(at + 7));
    const auto block = kernel.values.find("BLOCK");
    if (block != kernel.values.end()) speed += 0.01 * static_cast<double>(block->second);
    return speed;
  }
  static UnitResult ResultOf(const KernelSpec& kernel) {
    UnitResult result;
    const auto judged = [&](Verdict verdict, Stage stage, const char* code) {
      VerdictRecord record;
      record.verdict = verdict;
      record.stage = stage;
      record.reason_code = code;
      record.message = std::string("scripted ") + code;
      record.evidence = nlohmann::json::object();
      result.verdict = record;
    };
    if (kernel.source.find("broken") != std::string::npos) {
      judged(Verdict::kCompileError, Stage::kCompile, "compile_rejected");
      return result;
    }
    if (kernel.source.find("wrong") != std::string::npos) {
      judged(Verdict::kIncorrect, Stage::kVerify, "tolerance");
      return result;
    }
    CaseMeasurement one;
    one.case_label = "timed/0";
    one.a_median_ns = 10'000;
    one.b_median_ns = 10'000 / SpeedOf(kernel);
    one.ratio = SpeedOf(kernel);
    one.floor_ns = 1'000;
    one.roofline_fraction = 0.1 * one.ratio;
    result.measurement.emplace();
    result.measurement->cases.push_back(one);
    return result;
  }

  std::vector<LlmRequest> asked;
  std::size_t recalled_calls = 0;  // So many answers are of an earlier run.
  std::vector<std::string> tried, notes;
  std::vector<std::string> counted;  // Sources of the tries with counters.
  std::vector<Proposal> evaluated;
  std::vector<nlohmann::json> transcripts;
  nlohmann::json counters;  // What a try with counters gives.

 private:
  const Task& task_;
  const Target target_;
  const Script script_;
  std::map<std::string, KernelSpec> kernels_;
  double best_ = 1;
};

// A reply with one tool call.
inline LlmReply CallReply(const std::string& name, nlohmann::json input) {
  LlmReply reply;
  reply.stop = LlmReply::Stop::kToolUse;
  LlmToolCall call;
  call.id = "c1";
  call.name = name;
  call.raw_input = input.dump();
  call.input = std::move(input);
  reply.calls = {call};
  reply.usage = {.input_tokens = 100, .output_tokens = 50, .reported = true};
  return reply;
}
inline LlmReply PlanReply(const std::string& technique) {
  return CallReply("plan", {{"bottleneck", "memory"},
                            {"technique", technique},
                            {"change", "do " + technique},
                            {"expected_gain", 1.2}});
}

}  // namespace fettle
