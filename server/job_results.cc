// SPDX-License-Identifier: Apache-2.0
// The judging half of a job: what a stored result means.

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "core/status_macros.h"
#include "core/text.h"
#include "server/job_events.h"
#include "server/job_measures.h"
#include "server/job_run.h"
#include "server/provenance.h"
#include "store/candidate_store.h"
#include "store/job_store.h"
#include "store/variant_store.h"

namespace fettle {
namespace {

constexpr double kDisplayTail = 0.025;  // 95 % interval of the ratio.

v1::JobEvent JudgedEvent(const CandidateRow& row, const VerdictRecord& verdict,
                         const BudgetRow& spent) {
  v1::JobEvent event;
  v1::CandidateJudged& judged = *event.mutable_candidate_judged();
  judged.set_candidate_digest(row.digest);
  judged.set_ordinal(row.ordinal);
  judged.set_values_json(row.values_json);
  judged.set_verdict(std::string(VerdictName(verdict.verdict)));
  judged.set_stage(std::string(StageName(verdict.stage)));
  judged.set_reason_code(ValidUtf8(verdict.reason_code));
  judged.set_message(ValidUtf8(verdict.message));
  judged.set_ratio(row.ratio);
  *judged.mutable_spent() = BudgetToProto(spent);
  return event;
}

v1::JobEvent AcceptedEvent(const VariantRow& variant) {
  v1::JobEvent event;
  v1::VariantAccepted& accepted = *event.mutable_variant_accepted();
  accepted.set_variant_id(variant.id);
  accepted.set_candidate_digest(variant.candidate_digest);
  accepted.set_ratio(variant.ratio);
  accepted.set_ratio_low(variant.ratio_low);
  accepted.set_ratio_high(variant.ratio_high);
  accepted.set_values_json(variant.values_json);
  accepted.set_superseded_variant_id(variant.parent_variant);
  return event;
}

VerdictRecord MakeVerdict(Verdict verdict, Stage stage, std::string code, std::string message) {
  VerdictRecord record;
  record.verdict = verdict;
  record.stage = stage;
  record.reason_code = std::move(code);
  record.message = std::move(message);
  record.evidence = nlohmann::json::object();
  return record;
}

// A search measurement that is not worth a confirmation.
VerdictRecord NotFaster(const Measurement& measurement, double incumbent_ratio) {
  const double ratio = CombinedRatio(measurement);
  VerdictRecord verdict =
      MakeVerdict(Verdict::kNoWin, Stage::kMeasure, "not_faster",
                  incumbent_ratio > 1
                      ? fmt::format("{:.3f}x over the denominator; the best variant has {:.3f}x",
                                    ratio, incumbent_ratio)
                      : fmt::format("{:.3f}x over the denominator", ratio));
  verdict.evidence["ratio"] = ratio;
  verdict.evidence["incumbent_ratio"] = incumbent_ratio;
  return verdict;
}

double RatioOf(const UnitResult& result) {
  if (result.measurement.has_value()) return CombinedRatio(*result.measurement);
  if (result.screening.has_value()) return CombinedRatio(*result.screening);
  return 0;
}

}  // namespace

absl::Status JobRun::HandleOutcome(const UnitEnd& outcome) {
  if (!outcome.has_result) return HandlePoison(outcome);
  const auto json = nlohmann::json::parse(outcome.result_json, nullptr, /*allow_exceptions=*/false);
  absl::StatusOr<UnitResult> result =
      json.is_object() ? UnitResultFromJson(json) : absl::InvalidArgumentError("not a JSON object");
  if (!result.ok()) {
    context_.dispatcher.Reject(outcome.unit.id,
                               "its result cannot be read: " + StatusText(result.status()));
    return absl::OkStatus();
  }
  if (outcome.unit.kind == UnitKindName(UnitKind::kRegister)) {
    FETTLE_RETURN_IF_ERROR(HandleRegistration(outcome, *result));
  } else if (open_.find(outcome.unit.ordinal) == open_.end()) {
    ChargeUnit(outcome, *result);  // Given back meanwhile: nothing waits for it.
  } else if (outcome.unit.kind == UnitKindName(UnitKind::kConfirm)) {
    FETTLE_RETURN_IF_ERROR(HandleConfirmation(outcome, *result));
  } else {
    FETTLE_RETURN_IF_ERROR(HandleEvaluation(outcome, *result));
  }
  poison_in_a_row_ = 0;
  SettleWhenDurable(outcome.unit.id);
  return absl::OkStatus();
}

void JobRun::SettleWhenDurable(const std::string& unit_id) {
  context_.store.WhenDurable(
      [&dispatcher = context_.dispatcher, unit_id] { dispatcher.Settle(unit_id); });
}

absl::Status JobRun::StoreUnitResult(Connection& db, JobRow& job, const UnitEnd& outcome,
                                     const UnitResult& result) {
  const std::int64_t now = context_.clock.NowNs();
  UnitRow unit = outcome.unit;
  unit.state = unit_state::kDone;
  unit.ended_ns = now;
  FETTLE_RETURN_IF_ERROR(UpdateUnit(db, unit));
  job.spent.device_ms += DeviceMs(result.device_ns);  // ChargeUnit, once it is stored.
  return InsertEvaluation(db,
                          MakeEvaluation(unit, result, outcome.result_json, context_.version, now));
}

void JobRun::ChargeUnit(const UnitEnd& outcome, const UnitResult& result) {
  const std::int64_t used_ms = DeviceMs(result.device_ns);
  device_time_->Charge(ReservationOf(outcome.unit.ordinal), used_ms);
  if (outcome.unit.kind != UnitKindName(UnitKind::kRegister)) device_time_->SawUnit(used_ms);
}

absl::Status JobRun::HandleRegistration(const UnitEnd& outcome, const UnitResult& result) {
  const bool passed = !result.verdict.has_value();
  const bool cut = !passed && result.verdict->reason_code == kDeviceTimeReason;
  RegistrationRow registration;
  registration.task_digest = job_.task_digest;
  registration.target = job_.target;
  registration.fettle_version = context_.version;
  registration.passed = passed;
  registration.result_json = outcome.result_json;
  registration.created_ns = context_.clock.NowNs();
  if (absl::Status stored = Commit([&](Connection& db, JobRow& job) -> absl::Status {
        if (cut) {  // No result: a resumed job checks the task again.
          job.spent.device_ms += DeviceMs(result.device_ns);
          UnitRow unit = outcome.unit;
          unit.state = unit_state::kReturned;
          unit.reason = result.verdict->message;
          unit.ended_ns = registration.created_ns;
          unit.device_ms = DeviceMs(result.device_ns);
          return UpdateUnit(db, unit);
        }
        FETTLE_RETURN_IF_ERROR(StoreUnitResult(db, job, outcome, result));
        return PutRegistration(db, registration);
      });
      !stored.ok()) {
    return stored;
  }
  ChargeUnit(outcome, result);
  device_time_->Release(ReservationOf(0));
  if (cut) return FinishUnchecked();
  register_sent_ = false;  // StepRegister goes on from what is stored.
  return absl::OkStatus();
}

absl::Status JobRun::StoreVerdict(Connection& db, JobRow& job, CandidateRow& row,
                                  const VerdictRecord& verdict, double ratio) {
  const std::int64_t now = context_.clock.NowNs();
  ++job.judged_count;
  ++job.since_improvement;
  row.state = candidate_state::kJudged;
  row.judged_order = job.judged_count;
  row.verdict = std::string(VerdictName(verdict.verdict));
  row.verdict_json = ToJson(verdict).dump(-1, ' ', false, kReplaceInvalid);
  row.ratio = ratio;
  row.judged_ns = now;
  FETTLE_RETURN_IF_ERROR(UpdateCandidate(db, row));
  return AppendEvent(db, job, JudgedEvent(row, WithoutSecrets(verdict), job.spent), now,
                     /*terminal=*/false);
}

// In memory, after the transaction.
void JobRun::Judged(const CandidateRow& row, const VerdictRecord& verdict) {
  Outcome outcome;
  outcome.candidate_digest = row.digest;
  outcome.values = ParseValues(row.values_json);
  outcome.technique = row.technique;
  outcome.verdict = WithoutSecrets(verdict);
  if (row.ratio > 0) outcome.ratio = row.ratio;
  if (proposer_ != nullptr) proposer_->Observe(outcome);
  if (confirming_ == row.ordinal) confirming_ = 0;
  std::erase(confirm_queue_, row.ordinal);
  device_time_->Release(ReservationOf(row.ordinal));
  open_.erase(row.ordinal);
}

absl::Status JobRun::HandleEvaluation(const UnitEnd& outcome, const UnitResult& result) {
  Open& open = open_.at(outcome.unit.ordinal);
  CandidateRow row = open.row;
  const double ratio = RatioOf(result);
  std::optional<VerdictRecord> verdict = result.verdict;
  if (!verdict.has_value() && !result.measurement.has_value()) {
    verdict = MakeVerdict(Verdict::kUnmeasurable, Stage::kMeasure, "no_measurement",
                          "the worker reported no measurement");
  }
  if (!verdict.has_value() &&
      !judge::IsContender(*result.measurement, job_.incumbent_ratio, context_.rule)) {
    verdict = NotFaster(*result.measurement, job_.incumbent_ratio);
  }
  if (absl::Status stored = Commit([&](Connection& db, JobRow& job) -> absl::Status {
        FETTLE_RETURN_IF_ERROR(StoreUnitResult(db, job, outcome, result));
        if (verdict.has_value()) return StoreVerdict(db, job, row, *verdict, ratio);
        row.state = candidate_state::kConfirming;
        row.ratio = ratio;
        return UpdateCandidate(db, row);
      });
      !stored.ok()) {
    return stored;
  }
  ChargeUnit(outcome, result);
  if (verdict.has_value()) {
    Judged(row, *verdict);
    return absl::OkStatus();
  }
  open.row = std::move(row);
  open.confirm_queued = true;
  open.measured_by = outcome.unit.worker_id;
  confirm_queue_.push_back(outcome.unit.ordinal);
  return absl::OkStatus();
}

absl::Status JobRun::HandleConfirmation(const UnitEnd& outcome, const UnitResult& result) {
  Open& open = open_.at(outcome.unit.ordinal);
  CandidateRow row = open.row;
  const bool measured = result.measurement.has_value();
  const int k = static_cast<int>(job_.confirmations) + 1;
  judge::ConfirmationDecision decision;
  VerdictRecord verdict;
  if (result.verdict.has_value()) {
    verdict = *result.verdict;
  } else if (!measured) {
    verdict = MakeVerdict(Verdict::kUnmeasurable, Stage::kConfirm, "no_measurement",
                          "the worker reported no measurement");
  } else {
    decision = judge::DecideConfirmation(*result.measurement, k, /*aa_spread=*/0, context_.rule);
    verdict = decision.record;
    // The incumbent may have changed while this ran; only the one in force counts.
    const bool against_current = outcome.unit.incumbent_ordinal == job_.incumbent_ordinal;
    if (verdict.verdict == Verdict::kWin && job_.incumbent_ordinal != 0 &&
        (!against_current || !result.against_incumbent.has_value())) {
      verdict = MakeVerdict(Verdict::kUnmeasurable, Stage::kConfirm, "incumbent_not_measured",
                            "the confirmation was not measured beside the best variant");
    } else if (verdict.verdict == Verdict::kWin && job_.incumbent_ordinal != 0 &&
               !judge::BeatsIncumbent(*result.against_incumbent, k, context_.rule)) {
      verdict = MakeVerdict(
          Verdict::kNoWin, Stage::kConfirm, "not_better_than_incumbent",
          fmt::format("{:.3f}x over the denominator, but {:.3f}x beside the best variant",
                      decision.ratio, CombinedRatio(*result.against_incumbent)));
    }
  }
  std::optional<VariantRow> variant;
  if (verdict.verdict == Verdict::kWin) {
    FETTLE_ASSIGN_OR_RETURN(variant, MakeVariant(open, outcome, result, decision));
  }
  const double ratio = measured ? CombinedRatio(*result.measurement) : row.ratio;
  // At the next level and from its own data alone; not where device time is budgeted, of which two
  // units are reserved.
  const bool again =
      !open.again && LeavesOpen(verdict) && job_.budget.device_ms == 0 && OverTimeMs() < 0;
  if (absl::Status stored = Commit([&](Connection& db, JobRow& job) -> absl::Status {
        FETTLE_RETURN_IF_ERROR(StoreUnitResult(db, job, outcome, result));
        if (measured) job.confirmations = k;
        if (again) {
          row.ratio = ratio;
          return UpdateCandidate(db, row);
        }
        FETTLE_RETURN_IF_ERROR(StoreVerdict(db, job, row, verdict, ratio));
        if (!variant.has_value()) return absl::OkStatus();
        if (!variant->parent_variant.empty()) {
          FETTLE_RETURN_IF_ERROR(SetVariantStatus(db, variant->parent_variant,
                                                  variant_status::kSuperseded,
                                                  "replaced by " + variant->id));
        }
        FETTLE_RETURN_IF_ERROR(InsertVariant(db, *variant));
        job.since_improvement = 0;
        job.incumbent_ordinal = row.ordinal;
        job.incumbent_ratio = variant->ratio;
        job.best_variant = variant->id;
        job.best_ratio_declared = variant->ratio_declared;
        job.best_ratio_tuned = variant->ratio_tuned;
        return AppendEvent(db, job, AcceptedEvent(*variant), context_.clock.NowNs(),
                           /*terminal=*/false);
      });
      !stored.ok()) {
    return stored;
  }
  ChargeUnit(outcome, result);
  if (again) {
    spdlog::info("confirmed_again job_id={} ordinal={} ratio={:.4f}", id_, row.ordinal, ratio);
    open.row = std::move(row);
    open.again = true;
    confirming_ = 0;
    confirm_queue_.push_back(outcome.unit.ordinal);
    return absl::OkStatus();
  }
  if (variant.has_value()) {
    incumbent_ = open.kernel;
    incumbent_roofline_ = variant->roofline_fraction;
    spdlog::info("variant_accepted job_id={} variant={} ratio={:.4f}", id_, variant->id,
                 variant->ratio);
  }
  Judged(row, verdict);
  return absl::OkStatus();
}

absl::Status JobRun::DropContender(CandidateRow row) {
  const VerdictRecord verdict = MakeVerdict(
      Verdict::kNoWin, Stage::kMeasure, "not_faster",
      fmt::format("{:.3f}x over the denominator; a variant with {:.3f}x was accepted meanwhile",
                  row.ratio, job_.incumbent_ratio));
  FETTLE_RETURN_IF_ERROR(Commit([&](Connection& db, JobRow& job) -> absl::Status {
    return StoreVerdict(db, job, row, verdict, row.ratio);
  }));
  Judged(row, verdict);
  return absl::OkStatus();
}

absl::StatusOr<VariantRow> JobRun::MakeVariant(const Open& open, const UnitEnd& outcome,
                                               const UnitResult& result,
                                               const judge::ConfirmationDecision& decision) {
  VariantRow variant;
  variant.id = VariantId(id_, open.row.digest);
  variant.job_id = id_;
  variant.ordinal = open.row.ordinal;
  variant.candidate_digest = open.row.digest;
  variant.task_digest = job_.task_digest;
  variant.target = job_.target;
  variant.device_model = job_.device_model;
  variant.toolchain = job_.toolchain;
  variant.values_json = open.row.values_json;
  variant.ratio = decision.ratio;
  variant.ratio_low = std::exp(decision.stats.LowerBound(kDisplayTail));
  variant.ratio_high = std::exp(decision.stats.UpperBound(kDisplayTail));
  // A tuner's winner is the tuned baseline itself; others were measured against that one.
  variant.is_tuned_baseline = job_.proposer == "tuner" || job_.stage == job_stage::kTune;
  variant.ratio_tuned = variant.is_tuned_baseline ? 1 : decision.ratio;
  variant.ratio_declared =
      variant.is_tuned_baseline ? decision.ratio : decision.ratio * job_.tuned_ratio;
  variant.roofline_fraction = RooflineFraction(*result.measurement);
  if (job_.incumbent_ordinal != 0) variant.parent_variant = job_.best_variant;
  variant.accepted_ns = context_.clock.NowNs();

  ProvenanceInput input;
  input.variant = &variant;
  input.job = &job_;
  input.task = task_.get();
  input.task_blob = task_row_.blob;
  input.candidate = &open.row;
  input.kernel = &open.kernel;
  input.denominator = &denominator_;
  input.confirmation = &result;
  input.confirm_unit = &outcome.unit;
  input.fettle_version = context_.version;
  std::optional<EvaluationRow> search;
  FETTLE_RETURN_IF_ERROR(context_.store.ReadAhead([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(
        search, FindEvaluation(db, UnitId(id_, open.row.ordinal, UnitPurpose::kEvaluate)));
    FETTLE_ASSIGN_OR_RETURN(input.parents, ParentChain(db, id_, open.row));
    return absl::OkStatus();
  }));
  if (search.has_value()) input.search_result_json = search->result_json;
  variant.provenance_json = BuildProvenance(input).dump(-1, ' ', false, kReplaceInvalid);
  return variant;
}

absl::StatusOr<nlohmann::json> JobRun::AttemptsOf(const std::string& unit_id) const {
  std::vector<UnitRow> rows;
  FETTLE_RETURN_IF_ERROR(context_.store.ReadAhead([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(rows, UnitAttempts(db, unit_id));
    return absl::OkStatus();
  }));
  nlohmann::json attempts = nlohmann::json::array();
  for (const UnitRow& row : rows) {
    attempts.push_back({{"attempt", row.attempt},
                        {"worker", row.worker_id},
                        {"reason", row.reason},
                        {"leased_ns", row.leased_ns},
                        {"ended_ns", row.ended_ns}});
  }
  return attempts;
}

absl::Status JobRun::HandlePoison(const UnitEnd& outcome) {
  const std::string message =
      fmt::format("given up after {} attempts: {}", outcome.unit.attempt, outcome.reason);
  if (outcome.unit.kind == UnitKindName(UnitKind::kRegister)) {
    FETTLE_RETURN_IF_ERROR(
        Finish(job_state::kFailed, "the task could not be registered: " + message));
    SettleWhenDurable(outcome.unit.id);
    return absl::OkStatus();
  }
  const auto found = open_.find(outcome.unit.ordinal);
  if (found != open_.end()) {
    CandidateRow row = found->second.row;
    const bool confirm = outcome.unit.kind == UnitKindName(UnitKind::kConfirm);
    VerdictRecord verdict =
        MakeVerdict(Verdict::kUnmeasurable, confirm ? Stage::kConfirm : Stage::kMeasure,
                    "unit_abandoned", CutText(message, limits::kMaxErrorMessageBytes));
    FETTLE_ASSIGN_OR_RETURN(verdict.evidence["attempts"], AttemptsOf(outcome.unit.id));
    FETTLE_RETURN_IF_ERROR(Commit([&](Connection& db, JobRow& job) -> absl::Status {
      return StoreVerdict(db, job, row, verdict, row.ratio);
    }));
    Judged(row, verdict);
  }
  SettleWhenDurable(outcome.unit.id);
  if (++poison_in_a_row_ >= limits::kMaxPoisonInARow) {
    return Finish(job_state::kFailed,
                  fmt::format("{} units in a row could not be judged; the last: {}",
                              poison_in_a_row_, message));
  }
  return absl::OkStatus();
}

}  // namespace fettle
