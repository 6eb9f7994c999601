// SPDX-License-Identifier: Apache-2.0
#include "server/proposal_view.h"

#include <fmt/format.h>

#include "agent/agent_data.h"
#include "agent/diagnosis.h"
#include "agent/feedback.h"
#include "agent/hardware_card.h"
#include "core/status_macros.h"
#include "core/target.h"
#include "core/task_model.h"
#include "core/text.h"
#include "server/errors.h"
#include "server/ids.h"
#include "server/job_measures.h"
#include "store/candidate_store.h"
#include "store/job_store.h"
#include "store/variant_store.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr std::size_t kShownRationale = 240;
constexpr std::size_t kShortDigest = 16;

template <typename T>
json LimitJson(T limit, T spent) {
  json out = {{"spent", spent}};
  if (limit > 0) {
    out["limit"] = limit;
    out["left"] = limit > spent ? limit - spent : T(0);
  }
  return out;
}

json BudgetJson(const JobRow& job) {
  return {{"candidates", LimitJson(job.budget.candidates, job.spent.candidates)},
          {"wall_ms", LimitJson(job.budget.wall_ms, job.spent.wall_ms)},
          {"device_ms", LimitJson(job.budget.device_ms, job.spent.device_ms)},
          {"tokens", LimitJson(job.budget.tokens, job.spent.tokens)},
          {"usd", LimitJson(job.budget.usd, job.spent.usd)}};
}

std::string PrettyPlan(const KernelSpec& kernel) {
  json block = ToJson(kernel);
  block.erase("source");
  block.erase("headers");
  return block.dump(1, ' ', false, kReplaceInvalid);
}

// A target as proposers read it: what expressions may name.
std::string HardwareText(const JobRow& job) {
  const absl::StatusOr<Target> target = FindTarget(job.target);
  if (!target.ok()) return "not chosen yet: the job has not started";
  std::string text = fmt::format("target {} on {}\n", target->name, job.device_model);
  for (const auto& [name, value] : TargetVariables(*target)) {
    text += fmt::format("target.{} = {}\n", name, value);
  }
  if (const auto card = FindHardwareCard(target->name)) {
    text += CardText(*card, job.device_model, {}, kMaxReplyBytes);
  }
  return text;
}

absl::StatusOr<std::optional<UnitResult>> ResultOf(const EvaluationRow& row) {
  json document = json::parse(row.result_json, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return std::optional<UnitResult>();
  // Before the parse, so that nothing held out or secret can reach the reply.
  if (document.contains("seed")) document.erase("seed");
  absl::StatusOr<UnitResult> result = UnitResultFromJson(document);
  if (!result.ok()) return std::optional<UnitResult>();
  if (result->verdict.has_value()) result->verdict = WithoutSecrets(*result->verdict);
  if (result->verification.has_value()) {
    result->verification->seeds.clear();
    result->verification->failure = WithoutSecrets(result->verification->failure);
    // Held-out cases are told by their verdict's class only.
    std::erase_if(result->verification->cases,
                  [](const CaseReport& one) { return one.case_label.starts_with("held_out"); });
  }
  return std::optional<UnitResult>(*std::move(result));
}

}  // namespace

absl::StatusOr<json> BarOf(const Store& store, const JobRow& job, const judge::AcceptanceRule& rule,
                           const std::string& waiting) {
  std::optional<CandidateRow> incumbent;
  std::optional<VariantRow> variant;
  FETTLE_RETURN_IF_ERROR(store.Read([&](Connection& db) -> absl::Status {
    if (job.incumbent_ordinal == 0) return absl::OkStatus();
    FETTLE_ASSIGN_OR_RETURN(incumbent, FindCandidate(db, job.id, job.incumbent_ordinal));
    FETTLE_ASSIGN_OR_RETURN(variant, FindVariant(db, job.best_variant));
    return absl::OkStatus();
  }));
  json bar = {
      {"job", job.id}, {"state", job.state}, {"stage", job.stage}, {"budget", BudgetJson(job)}};
  if (!job.message.empty()) bar["message"] = CutText(job.message, 400);
  if (!waiting.empty()) bar["waiting"] = CutText(waiting, 400);
  bar["denominator"] = job.stage == job_stage::kSearch && job.tuned_ratio > 0
                           ? json{{"kind", "tuned baseline"}, {"over_declared", job.tuned_ratio}}
                           : json{{"kind", "declared baseline"}};
  double best = 1;
  if (incumbent.has_value() && variant.has_value()) {
    best = job.incumbent_ratio;
    bar["incumbent"] = {{"candidate", incumbent->digest},
                        {"variant", variant->id},
                        {"ratio", variant->ratio},
                        {"ratio_low", variant->ratio_low},
                        {"ratio_high", variant->ratio_high}};
    if (variant->roofline_fraction > 0) {
      bar["roofline"] = {{"incumbent_fraction", variant->roofline_fraction},
                         {"headroom", 1 / variant->roofline_fraction}};
    }
  } else {
    bar["incumbent"] = nullptr;
  }
  // A contender has to beat the incumbent by min_step, and the denominator by min_gain.
  bar["to_beat"] = {{"ratio", std::max(1 + rule.min_gain, best * (1 + rule.min_step))},
                    {"no_case_below", rule.case_floor},
                    {"confirmations_so_far", job.confirmations}};
  return bar;
}

absl::StatusOr<std::string> BriefText(const Task& task, const JobRow& job,
                                      const std::string& section) {
  const auto file = [&](const std::string& name) -> std::string {
    const auto found = task.files().find(name);
    return found == task.files().end() ? "" : found->second;
  };
  if (section == "task") return file("task.yaml");
  if (section == "source") {
    std::string text = task.baseline().source;
    for (const auto& [name, bytes] : task.baseline().headers) {
      text += fmt::format("\n// ---- {}\n{}", name, bytes);
    }
    return text;
  }
  if (section == "plan") return PrettyPlan(task.baseline());
  if (section == "reference") {
    if (task.reference().source.empty()) {
      return fmt::format("the expected outputs are stored ({})", task.reference().kind);
    }
    return file(task.reference().source);
  }
  if (section == "hardware") return HardwareText(job);
  if (section == "rules") return std::string(AgentData("rules.md"));
  std::string known;
  for (const std::string_view one : kBriefSections) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", one);
  }
  return errors::BadField("section", fmt::format("must be one of {}", known));
}

json BriefOverview(const Task& task, const JobRow& job, json bar) {
  const TaskModel& model = task.model();
  json args = json::array();
  for (const ArgDecl& arg : model.args) args.push_back(arg.name);
  json dims = json::array();
  for (const DimDecl& dim : model.dims) dims.push_back(dim.name);
  json timed = json::array();
  const absl::StatusOr<Target> target = FindTarget(job.target);
  if (target.ok()) {
    const auto cases = task.BindCases(CaseSet::kTimed, /*seed=*/1, *target);
    for (std::size_t i = 0; cases.ok() && i < cases->size() && i < 40; ++i) {
      const BoundCase& one = (*cases)[i];
      json entry = {
          {"case", one.label}, {"sizes", CutText(one.Describe(), 300)}, {"weight", one.weight}};
      if (one.work_bytes > 0) entry["least_bytes"] = one.work_bytes;
      if (one.work_flops > 0) entry["least_flops"] = one.work_flops;
      timed.push_back(std::move(entry));
    }
  }
  json sections = json::array();
  for (const std::string_view one : kBriefSections) sections.push_back(one);
  json tunables = json::object();
  for (const Tunable& tunable : task.baseline().tunables) tunables[tunable.name] = tunable.values;
  return {{"section", "overview"},
          {"task", task.name()},
          {"summary", CutText(task.summary(), 1'000)},
          {"target", job.target},
          {"device", job.device_model},
          {"arguments", std::move(args)},
          {"dims", std::move(dims)},
          {"timed_cases", std::move(timed)},
          {"checked_cases", model.checked.size()},
          {"held_out_cases", task.held_out_count()},
          {"baseline",
           {{"source_name", task.baseline().source_name},
            {"source_bytes", task.baseline().source.size()},
            {"tunables", std::move(tunables)},
            {"values", task.baseline().values}}},
          {"sections", std::move(sections)},
          {"bar", std::move(bar)}};
}

json AttemptJson(const CandidateRow& row) {
  json out = {{"candidate", row.digest.substr(0, kShortDigest)},
              {"ordinal", row.ordinal},
              {"state", row.state},
              {"technique", row.technique},
              {"proposer", row.proposer}};
  out["parent"] = row.parent.empty() ? "baseline" : row.parent.substr(0, kShortDigest);
  if (row.ratio > 0) out["ratio"] = row.ratio;
  const json values = json::parse(row.values_json, nullptr, /*allow_exceptions=*/false);
  if (values.is_object() && !values.empty()) out["values"] = values;
  if (!row.rationale.empty()) out["rationale"] = CutText(row.rationale, kShownRationale);
  const json verdict = json::parse(row.verdict_json, nullptr, /*allow_exceptions=*/false);
  if (absl::StatusOr<VerdictRecord> record = VerdictRecordFromJson(verdict); record.ok()) {
    const VerdictRecord shown = WithoutSecrets(*std::move(record));
    out["verdict"] = VerdictName(shown.verdict);
    if (shown.verdict == Verdict::kWin) out["variant"] = VariantId(row.job_id, row.digest);
    out["stage"] = StageName(shown.stage);
    out["reason"] = shown.reason_code;
    out["message"] = CutText(shown.message, kShownRationale);
  }
  return out;
}

namespace {

struct Evaluations {
  std::optional<UnitResult> evaluation, confirmation;
};

absl::StatusOr<Evaluations> ReadEvaluations(const Store& store, const CandidateRow& row) {
  std::vector<EvaluationRow> rows;
  FETTLE_RETURN_IF_ERROR(store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(rows, ListEvaluations(db, row.job_id, row.ordinal));
    return absl::OkStatus();
  }));
  Evaluations out;
  for (const EvaluationRow& one : rows) {
    FETTLE_ASSIGN_OR_RETURN(std::optional<UnitResult> result, ResultOf(one));
    (one.kind == UnitKindName(UnitKind::kConfirm) ? out.confirmation : out.evaluation) =
        std::move(result);
  }
  return out;
}

}  // namespace

absl::StatusOr<std::optional<UnitResult>> EvaluationOf(const Store& store,
                                                       const CandidateRow& row) {
  FETTLE_ASSIGN_OR_RETURN(Evaluations evaluations, ReadEvaluations(store, row));
  return std::move(evaluations.evaluation);
}

absl::StatusOr<json> FeedbackOf(const Store& store, const CandidateRow& row) {
  FETTLE_ASSIGN_OR_RETURN(const Evaluations read, ReadEvaluations(store, row));
  std::optional<VerdictRecord> verdict;
  const json document = json::parse(row.verdict_json, nullptr, /*allow_exceptions=*/false);
  if (absl::StatusOr<VerdictRecord> record = VerdictRecordFromJson(document); record.ok()) {
    verdict = WithoutSecrets(*std::move(record));
  }
  FeedbackInput input;
  input.verdict = verdict.has_value() ? &*verdict : nullptr;
  input.ratio = row.ratio;
  input.evaluation = read.evaluation.has_value() ? &*read.evaluation : nullptr;
  input.confirmation = read.confirmation.has_value() ? &*read.confirmation : nullptr;
  // The bar and the frame need room too.
  json feedback = MakeFeedback(input, kMaxReplyBytes * 3 / 4);
  std::optional<JobRow> job;
  FETTLE_RETURN_IF_ERROR(store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(job, FindJob(db, row.job_id));
    return absl::OkStatus();
  }));
  if (job.has_value() && input.evaluation != nullptr && row.ratio > 0) {
    const std::optional<HardwareCard> card = FindHardwareCard(job->target);
    feedback["diagnosis"] =
        ToJson(Diagnose(*input.evaluation, card.has_value() ? &*card : nullptr, job->device_model));
  }
  feedback["candidate"] = row.digest;
  feedback["ordinal"] = row.ordinal;
  return feedback;
}

}  // namespace fettle
