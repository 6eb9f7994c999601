// SPDX-License-Identifier: Apache-2.0
#include "agent/agent_loop.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "agent/conversation.h"
#include "agent/counter_diagnosis.h"
#include "agent/feedback.h"
#include "agent/tuner.h"
#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr std::size_t kToolResultBytes = 12'000;
constexpr std::size_t kReasonBytes = 300;
constexpr int kMaxDuplicates = 3;  // Of one conversation.
constexpr int kMaxProse = 2;       // Answers without a tool call in one conversation.
constexpr double kRegression = 0.99;
constexpr int kFitBatch = 4;
constexpr std::size_t kMaxRationaleBytes = 4'000;
constexpr char kNoRoom[] = "the model's context is too short: not even a question fits into it";
constexpr std::size_t kMaxDiagnoses = 100;  // Kept in memory.

// Verdicts that a repair may mend.
const char* RepairFile(Verdict verdict) {
  switch (verdict) {
    case Verdict::kCompileError:
    case Verdict::kRefused:
      return "repair_compile.md";
    case Verdict::kIncorrect:
    case Verdict::kLaunchError:
    case Verdict::kTimeout:
    case Verdict::kCrashed:
    case Verdict::kUnsupportedShape:
      return "repair_wrong.md";
    default:
      return nullptr;
  }
}

std::string Dump(const json& document) { return document.dump(-1, ' ', false, kReplaceInvalid); }

std::string ArgumentText(const json& arguments, const char* name) {
  if (!arguments.is_object()) return "";
  const auto found = arguments.find(name);
  return found != arguments.end() && found->is_string() ? found->get<std::string>() : "";
}

LlmToolResult Result(const LlmToolCall& call, const std::string& text, bool is_error = false) {
  return {call.id, CutText(text, kToolResultBytes), is_error};
}

// What a failed tool call is told.
std::string CallProblem(const LlmToolCall& call, LlmReply::Stop stop) {
  if (stop == LlmReply::Stop::kMaxTokens) {
    return "Your answer was cut off at its longest. Hand in edits instead of the whole source.";
  }
  return fmt::format("The arguments of {} are no JSON object.", CutText(call.name, 80));
}

// False: the tree has the same kernel, apart from layout and comments.
bool Reserve(SearchTree& tree, const KernelSpec& kernel) {
  return tree.Reserve(
      NormalizeSource(kernel.source) + '\n' + Dump(kernel.launches) + Dump(kernel.workspace),
      Dump(json(kernel.values)));
}

bool EndsTheLoop(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsAborted(status);
}

// 0: not said, or nothing that a gain can be.
double GainOf(const json& arguments) {
  constexpr double kMost = 1'000;
  const double gain = NumberAt(arguments, "expected_gain");
  return gain > 0 && gain <= kMost ? gain : 0;
}

}  // namespace

std::string_view ModelRoleName(ModelRole role) {
  return role == ModelRole::kPlanner ? "plan" : "write";
}

AgentLoop::AgentLoop(PromptContext context, KernelSpec denominator, LoopHost& host,
                     LoopOptions options)
    : context_(std::move(context)),
      denominator_(std::move(denominator)),
      host_(host),
      options_(options),
      system_(SystemPrompt(context_)),
      tree_(options.seed, options.tree) {
  Reserve(tree_, denominator_);
}

absl::Status AgentLoop::Run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    ++rounds_;
    recalled_ = false;
    const absl::Status round = Round(stop);
    if (absl::IsAborted(round)) {
      reason_ = StatusText(round);
      return absl::OkStatus();
    }
    FETTLE_RETURN_IF_ERROR(round);
    if (failed_rounds_ >= options_.max_failed_rounds && recalled_) {
      failed_rounds_ = 0;  // An earlier run ended here, and the job was resumed.
    }
    if (failed_rounds_ >= options_.max_failed_rounds) {
      reason_ =
          fmt::format("the model gave nothing usable in {} rounds in a row; the last time: {}",
                      failed_rounds_, last_failure_);
      return absl::OkStatus();
    }
  }
  return absl::CancelledError("the loop was stopped");
}

absl::StatusOr<LlmReply> AgentLoop::Ask(ModelRole role, const LlmRequest& request,
                                        const std::stop_token& stop) {
  absl::StatusOr<LlmReply> reply = host_.Ask(role, request, stop);
  recalled_ = host_.recalled();
  return reply;
}

absl::StatusOr<KernelSpec> AgentLoop::KernelOf(const TreeNode& node) {
  if (node.digest.empty()) return denominator_;
  return host_.Load(node.digest);
}

// What became of a candidate is stored, and handing it in again only reads it.
absl::StatusOr<UnitResult> AgentLoop::Measured(const TreeNode& node, const KernelSpec& kernel,
                                               std::stop_token stop) {
  if (node.digest.empty()) return host_.Try(kernel, "measure", std::move(stop));
  Proposal proposal;
  proposal.kernel = kernel;
  proposal.values = kernel.values;
  FETTLE_ASSIGN_OR_RETURN(std::vector<Attempt> attempts,
                          host_.Evaluate({std::move(proposal)}, nullptr, std::move(stop)));
  return std::move(attempts.front().evaluation);
}

void AgentLoop::Keep(const std::string& digest, Diagnosis diagnosis) {
  diagnoses_[digest] = std::move(diagnosis);
  kept_.push_back(digest);
  if (kept_.size() <= kMaxDiagnoses) return;
  // Counters are asked for once, so that what they said stays.
  if (!counted_.contains(kept_.front())) diagnoses_.erase(kept_.front());
  kept_.pop_front();
}

absl::StatusOr<Diagnosis> AgentLoop::DiagnosisOf(const TreeNode& node, const KernelSpec& kernel,
                                                 std::stop_token stop) {
  if (!diagnoses_.contains(node.digest)) {
    Diagnosis diagnosis;
    const absl::StatusOr<UnitResult> measured = Measured(node, kernel, stop);
    if (measured.ok()) {
      diagnosis = Diagnose(*measured, context_.card, context_.device_model);
    } else if (EndsTheLoop(measured.status())) {
      return measured.status();
    } else {  // Without evidence there is no advice on evidence.
      diagnosis.evidence_agrees = false;
      diagnosis.lines = {"it could not be measured: " +
                         CutText(StatusText(measured.status()), 300)};
      diagnosis.topics = {"general", "memory", "latency"};
    }
    Keep(node.digest, std::move(diagnosis));
  }
  Diagnosis& diagnosis = diagnoses_[node.digest];
  FETTLE_RETURN_IF_ERROR(Count(node, kernel, diagnosis, std::move(stop)));
  return diagnosis;
}

// Once for each parent. Where no profiler works there is nothing to ask for again.
absl::Status AgentLoop::Count(const TreeNode& node, const KernelSpec& kernel, Diagnosis& diagnosis,
                              std::stop_token stop) {
  const bool gpu = context_.card != nullptr && context_.card->vendor != "cpu";
  if (!options_.counters || !counts_ || !gpu || !counted_.insert(node.digest).second) {
    return absl::OkStatus();
  }
  const absl::StatusOr<UnitResult> counted = host_.Try(kernel, "counters", std::move(stop));
  if (!counted.ok()) {
    return EndsTheLoop(counted.status()) ? counted.status() : absl::OkStatus();
  }
  counts_ = !counted->counters.is_object() || !counted->counters.contains("absent");
  ReadCounters(counted->counters, diagnosis);
  return absl::OkStatus();
}

absl::Status AgentLoop::Round(std::stop_token stop) {
  SearchTree::Choice choice;
  Conversation talk;
  if (kept_plan_.has_value()) {
    // A good plan is worth a second writing.
    talk.plan = *std::exchange(kept_plan_, std::nullopt);
    choice.node = tree_.Find(kept_parent_);
  }
  if (choice.node == nullptr) choice = tree_.ChooseParent();
  talk.parent = choice.node;
  FETTLE_ASSIGN_OR_RETURN(talk.parent_kernel, KernelOf(*choice.node));
  talk.last = talk.parent_kernel;
  const bool second_writing = !talk.plan.change.empty();
  if (!second_writing) {
    FETTLE_ASSIGN_OR_RETURN(std::optional<ModelPlan> plan, Plan(choice, talk.parent_kernel, stop));
    if (!plan.has_value()) {
      ++failed_rounds_;
      return absl::OkStatus();
    }
    talk.plan = *std::move(plan);
  }
  FETTLE_RETURN_IF_ERROR(Write(talk, std::move(stop)));
  // A plan that buggy code hides says nothing of its parent yet.
  const bool keep = talk.buggy && !talk.failure.empty() && !second_writing;
  if (!keep) tree_.EndRound(talk.parent->digest);
  if (talk.failure.empty()) {
    failed_rounds_ = 0;
    return absl::OkStatus();
  }
  last_failure_ = CutText(talk.failure, kReasonBytes);
  failed_rounds_ = talk.judged ? 0 : failed_rounds_ + 1;
  host_.Note("round_failed",
             fmt::format("{}: {}", CutText(talk.plan.technique, 80), last_failure_));
  if (keep) {
    kept_plan_ = talk.plan;
    kept_parent_ = talk.parent->digest;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<ModelPlan>> AgentLoop::Plan(const SearchTree::Choice& choice,
                                                         const KernelSpec& kernel,
                                                         std::stop_token stop) {
  FETTLE_ASSIGN_OR_RETURN(const Diagnosis diagnosis, DiagnosisOf(*choice.node, kernel, stop));
  LlmRequest request;
  request.system = system_;
  request.messages.push_back(
      {.text = PlanPrompt(context_, {&kernel, choice.node, choice.restarted, &tree_, &diagnosis})});
  request.tools = PlanTools();
  request.require_tool = true;
  request.max_output_tokens = options_.max_output_tokens;
  std::string problem;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (!FitConversation(request, options_.max_conversation_bytes)) {
      problem = kNoRoom;
      break;
    }
    FETTLE_ASSIGN_OR_RETURN(const LlmReply reply, Ask(ModelRole::kPlanner, request, stop));
    last_plan_ = {{"request", ToJson(request)}, {"reply", ToJson(reply)}};
    for (const LlmToolCall& call : reply.calls) {
      ModelPlan plan;
      plan.bottleneck = CutText(ArgumentText(call.input, "bottleneck"), kReasonBytes);
      plan.technique = CutText(ArgumentText(call.input, "technique"), 80);
      plan.change = ArgumentText(call.input, "change");
      if (call.name != "plan" || plan.change.empty() || plan.technique.empty()) continue;
      plan.expected_gain = GainOf(call.input);
      return std::optional<ModelPlan>(std::move(plan));
    }
    problem = reply.stop == LlmReply::Stop::kRefusal ? "the model refused to plan"
              : reply.calls.empty()                  ? "no plan: prose instead of a tool call"
                                    : "no plan: a call without technique and change";
    if (reply.stop == LlmReply::Stop::kRefusal) break;
    LlmMessage turn;
    turn.role = LlmMessage::Role::kAssistant;
    turn.text = reply.text.empty() && reply.calls.empty() ? "(nothing)" : reply.text;
    turn.calls = reply.calls;
    turn.raw = reply.raw;
    LlmMessage nudge;
    for (const LlmToolCall& call : reply.calls) {
      nudge.results.push_back(Result(call, "This is no plan.", /*is_error=*/true));
    }
    nudge.text = RepairPrompt("repair_call.md", "That was no plan.");
    request.messages.push_back(std::move(turn));
    request.messages.push_back(std::move(nudge));
  }
  last_failure_ = problem;
  host_.Note("round_failed", problem);
  return std::optional<ModelPlan>();
}

absl::Status AgentLoop::Write(Conversation& talk, std::stop_token stop) {
  talk.repairs = options_.max_repairs;
  talk.slow_repairs = options_.max_slow_repairs;
  talk.request.system = system_;
  talk.request.tools = WriteTools();
  talk.request.require_tool = true;
  talk.request.max_output_tokens = options_.max_output_tokens;
  talk.request.messages.push_back(
      {.text = WritePrompt(talk.parent_kernel, talk.plan, options_.max_turns, context_.share),
       .cache_mark = true});
  for (int turn = 0; turn < options_.max_turns && !talk.over; ++turn) {
    if (!FitConversation(talk.request, options_.max_conversation_bytes)) {
      talk.failure = kNoRoom;
      return absl::OkStatus();
    }
    FETTLE_ASSIGN_OR_RETURN(const LlmReply reply, Ask(ModelRole::kWriter, talk.request, stop));
    if (reply.stop == LlmReply::Stop::kRefusal) {
      talk.failure = "the model refused to write it";
      return absl::OkStatus();
    }
    LlmMessage said;
    said.role = LlmMessage::Role::kAssistant;
    said.text = reply.text.empty() && reply.calls.empty() ? "(nothing)" : reply.text;
    said.calls = reply.calls;
    said.raw = reply.raw;
    talk.request.messages.push_back(std::move(said));
    LlmMessage answer;
    if (reply.calls.empty()) {
      if (++talk.prose > kMaxProse) {
        talk.failure = "prose instead of a tool call";
        return absl::OkStatus();
      }
      answer.text = RepairPrompt("repair_call.md", reply.stop == LlmReply::Stop::kMaxTokens
                                                       ? "Your answer was cut off at its longest."
                                                       : "You answered without a tool call.");
    }
    int counted = 0;
    for (LlmToolCall call : reply.calls) {
      if (call.raw_input.empty() && call.input.is_null())
        call.input = json::object();  // No arguments.
      if (talk.over || ++counted > options_.max_calls) {
        answer.results.push_back(Result(call, "Not done: too many calls at once.", true));
        continue;
      }
      if (!call.input.is_object()) {
        answer.results.push_back(
            Result(call, RepairPrompt("repair_call.md", CallProblem(call, reply.stop)), true));
        continue;
      }
      FETTLE_ASSIGN_OR_RETURN(LlmToolResult result, Answer(talk, call, stop));
      answer.results.push_back(std::move(result));
    }
    // The longest prefix that the next request shares; the one before it ends in it.
    if (talk.request.messages.size() > 2) {
      talk.request.messages[talk.request.messages.size() - 2].cache_mark = false;
    }
    answer.cache_mark = true;
    talk.request.messages.push_back(std::move(answer));
  }
  if (!talk.over && talk.failure.empty()) {
    talk.failure = fmt::format("no proposal that is right within {} answers", options_.max_turns);
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelSpec> AgentLoop::Changed(Conversation& talk, const json& arguments) {
  FETTLE_ASSIGN_OR_RETURN(const KernelChange change, ChangeFromJson(arguments));
  ChangeProblem problem = ChangeProblem::kNone;
  absl::StatusOr<KernelSpec> kernel = ApplyChange(*context_.task, talk.last, change, &problem);
  if (!kernel.ok() && problem == ChangeProblem::kPatchFailed) {
    ChangeProblem again = ChangeProblem::kNone;
    absl::StatusOr<KernelSpec> other =
        ApplyChange(*context_.task, talk.parent_kernel, change, &again);
    if (other.ok()) return other;
  }
  return kernel;
}

std::string AgentLoop::SourcePage(Conversation& talk, const json& arguments) {
  const std::string digest = ArgumentText(arguments, "candidate");
  std::string source = talk.parent_kernel.source;
  if (!digest.empty()) {
    const absl::StatusOr<KernelSpec> kernel = host_.Load(digest);
    if (!kernel.ok()) return "error: " + StatusText(kernel.status());
    source = kernel->source;
  }
  const absl::StatusOr<TextPage> page =
      PageOf(source, ArgumentText(arguments, "cursor"), ResultBytes() - 500);
  if (!page.ok()) return "error: " + StatusText(page.status());
  return page->text +
         (page->next_cursor.empty() ? "" : "\n(next cursor: " + page->next_cursor + ")");
}

absl::StatusOr<LlmToolResult> AgentLoop::Answer(Conversation& talk, const LlmToolCall& call,
                                                std::stop_token stop) {
  if (call.name == "give_up") {
    talk.over = true;
    talk.buggy = false;
    talk.failure = "given up: " + CutText(ArgumentText(call.input, "learned"), kReasonBytes);
    return Result(call, "noted");
  }
  if (call.name == "read_source") return Result(call, SourcePage(talk, call.input));
  if (call.name == "list_attempts") {
    std::string text;
    for (const TreeNode* node : tree_.Recent(SearchTree::kRemembered)) {
      text += fmt::format("{} {} {} {:.3f}x {}\n", node->digest.substr(0, 12), node->technique,
                          std::string(VerdictName(node->verdict)), node->ratio,
                          CutText(node->message, 120));
      if (const TreeNode* fitted = node->fitted.empty() ? nullptr : tree_.Find(node->fitted)) {
        text += fmt::format("{} the same with fitted values {:.3f}x\n",
                            fitted->digest.substr(0, 12), fitted->ratio);
      }
    }
    return Result(call, text.empty() ? "nothing yet" : text);
  }
  if (call.name == "read_card") {
    if (context_.card == nullptr) return Result(call, "there is no card for this target");
    return Result(call, CardText(*context_.card, context_.device_model,
                                 {ArgumentText(call.input, "topic")}, ResultBytes()));
  }
  const bool propose = call.name == "propose";
  const char* mode = call.name == "compile"     ? "compile"
                     : call.name == "check"     ? "check"
                     : call.name == "find_bugs" ? "bugs"
                                                : nullptr;
  if (!propose && mode == nullptr) {
    std::string known;
    for (const LlmTool& tool : talk.request.tools) known += " " + tool.name;
    return Result(
        call, fmt::format("there is no tool {}; there are{}", CutText(call.name, 80), known), true);
  }
  const absl::StatusOr<KernelSpec> kernel = Changed(talk, call.input);
  if (!kernel.ok()) return Result(call, "not taken: " + StatusText(kernel.status()), true);
  talk.last = *kernel;
  if (propose) return Propose(talk, call, *kernel, std::move(stop));
  const absl::StatusOr<UnitResult> tried = host_.Try(*kernel, mode, std::move(stop));
  if (absl::IsCancelled(tried.status()) || absl::IsAborted(tried.status())) return tried.status();
  if (!tried.ok()) return Result(call, "it could not be done: " + StatusText(tried.status()), true);
  FeedbackInput input;
  input.verdict = tried->verdict.has_value() ? &*tried->verdict : nullptr;
  input.evaluation = &*tried;
  json feedback = MakeFeedback(input, ResultBytes() - 100);
  feedback["passed"] = !tried->verdict.has_value();
  return Result(call, Dump(feedback));
}

std::size_t AgentLoop::ResultBytes() const {
  return static_cast<std::size_t>(context_.share * static_cast<double>(kToolResultBytes));
}

json AgentLoop::Transcript(const Conversation& talk) const {
  return {{"round", rounds_}, {"plan", last_plan_}, {"write", ToJson(talk.request)}};
}

void AgentLoop::Record(const Conversation& talk, const Attempt& attempt, double expected,
                       const std::string& base) {
  TreeNode node;
  node.digest = attempt.digest;
  node.parent = talk.parent->digest;
  node.technique = talk.plan.technique;
  node.expected = expected;
  node.base = base;
  node.verdict = attempt.verdict.verdict;
  const bool right = node.verdict == Verdict::kWin || node.verdict == Verdict::kNoWin ||
                     node.verdict == Verdict::kAmbiguous;
  node.ratio = right ? attempt.ratio : 0;
  node.message = CutText(attempt.verdict.message, 200);
  if (right && base.empty()) {
    Keep(node.digest, Diagnose(attempt.evaluation, context_.card, context_.device_model));
  }
  tree_.Add(std::move(node));
}

absl::StatusOr<LlmToolResult> AgentLoop::Propose(Conversation& talk, const LlmToolCall& call,
                                                 const KernelSpec& kernel, std::stop_token stop) {
  if (!Reserve(tree_, kernel)) {
    if (++talk.duplicates >= kMaxDuplicates) {
      talk.over = true;
      talk.failure = "it only repeats kernels that were tried";
    }
    return Result(call, RepairPrompt("duplicate.md", ""), true);
  }
  Proposal proposal;
  proposal.kernel = kernel;
  proposal.values = kernel.values;
  proposal.parent = talk.parent->digest;
  proposal.technique = talk.plan.technique;
  proposal.rationale = CutText(ArgumentText(call.input, "rationale"), kMaxRationaleBytes);
  FETTLE_ASSIGN_OR_RETURN(const std::vector<Attempt> attempts,
                          host_.Evaluate({proposal}, Transcript(talk), stop));
  const Attempt& attempt = attempts.front();
  talk.judged = true;
  const std::string feedback = CutText(Dump(attempt.feedback), ResultBytes());
  const double parent_ratio = talk.parent->ratio;
  const double said = GainOf(call.input);
  Record(talk, attempt, said > 0 ? said : talk.plan.expected_gain, "");
  const char* file = RepairFile(attempt.verdict.verdict);
  talk.buggy = file != nullptr;
  if (file != nullptr) {
    if (talk.repairs-- > 0) return Result(call, RepairPrompt(file, feedback));
    talk.over = true;
    talk.failure =
        fmt::format("{} after {} repairs: {}", std::string(VerdictName(attempt.verdict.verdict)),
                    options_.max_repairs, CutText(attempt.verdict.message, 200));
    return Result(call, "no repair is left");
  }
  double ratio = attempt.ratio;
  std::string learned;
  if (options_.fit > 0 && SpaceSize(kernel.tunables) > 1) {
    FETTLE_ASSIGN_OR_RETURN(const FitSummary fit, Fit(talk, attempt, kernel, stop));
    ratio = std::max(ratio, fit.best_ratio());
    learned = fit.Text();
    tree_.Learn(attempt.digest, learned);
  }
  if (ratio < parent_ratio * kRegression && talk.slow_repairs-- > 0) {
    return Result(call, RepairPrompt("repair_slow.md", learned + "\n" + feedback));
  }
  talk.over = true;
  return Result(call, feedback);
}

absl::StatusOr<FitSummary> AgentLoop::Fit(Conversation& talk, const Attempt& base,
                                          const KernelSpec& kernel, std::stop_token stop) {
  FitSummary summary;
  summary.Add(kernel.values, base.verdict.verdict, base.ratio);
  TunerOptions tuner_options;
  std::from_chars(base.digest.data(),
                  base.digest.data() + std::min<std::size_t>(15, base.digest.size()),
                  tuner_options.seed, 16);
  tuner_options.budget = options_.fit;
  tuner_options.parent = base.digest;
  const absl::StatusOr<std::unique_ptr<Proposer>> tuner =
      MakeKernelTuner(*context_.task, kernel, context_.target, tuner_options);
  if (!tuner.ok()) return summary;
  const auto observe = [&](const Attempt& attempt, const TunableValues& values,
                           const std::string& technique) {
    Outcome outcome;
    outcome.candidate_digest = attempt.digest;
    outcome.values = values;
    outcome.verdict = attempt.verdict;
    outcome.technique = technique;
    if (attempt.ratio > 0) outcome.ratio = attempt.ratio;
    (*tuner)->Observe(outcome);
  };
  const json transcript = Transcript(talk);
  while (!(*tuner)->exhausted()) {
    FETTLE_ASSIGN_OR_RETURN(std::vector<Proposal> batch, (*tuner)->Propose(kFitBatch, stop));
    if (batch.empty()) break;
    FETTLE_ASSIGN_OR_RETURN(const std::vector<Attempt> attempts,
                            host_.Evaluate(batch, transcript, stop));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      observe(attempts[i], batch[i].values, batch[i].technique);
      if (attempts[i].digest == base.digest) continue;
      summary.Add(batch[i].values, attempts[i].verdict.verdict, attempts[i].ratio);
      Record(talk, attempts[i], /*expected=*/0, base.digest);
    }
  }
  return summary;
}

}  // namespace fettle
