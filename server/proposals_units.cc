// SPDX-License-Identifier: Apache-2.0
// TryProposal: one evaluation outside the candidates.

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "agent/feedback.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "proto/channel.h"
#include "server/device_time.h"
#include "server/errors.h"
#include "server/ids.h"
#include "server/job_kernels.h"
#include "server/job_measures.h"
#include "server/limits.h"
#include "server/proposals_service.h"
#include "server/unary.h"
#include "server/unit_call.h"
#include "store/job_store.h"
#include "store/proposal_store.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxTries = 2'000;  // Of one job; a limit on mischief, not on work.

absl::Status BadMode() {
  return WithErrorCode(
      errors::BadField("mode", "must be compile, check, bugs, measure or counters"), "bad_request");
}

absl::Status CheckCase(const Task& task, const std::string& label) {
  if (label.empty()) return absl::OkStatus();
  for (const CaseSet set : {CaseSet::kTimed, CaseSet::kChecked}) {
    FETTLE_ASSIGN_OR_RETURN(const std::vector<BoundCase> cases, task.BindCases(set, /*seed=*/1));
    for (const BoundCase& one : cases) {
      if (one.label == label) return absl::OkStatus();
    }
  }
  return WithErrorCode(
      errors::BadField("case",
                       fmt::format("the task has no case \"{}\"; write timed/N or checked/N",
                                   CutText(label, 80))),
      "bad_request");
}

}  // namespace

// One try from its reservation to its end.
struct ProposalsService::OpenTry {
  // Stores what it took and how it ended.
  absl::Status Settle(Store& store, std::int64_t device_ms, std::string verdict) {
    reservation->Charge(device_ms);
    row.device_ms = reservation->used_ms();
    row.verdict = std::move(verdict);
    return store.Write([this](Connection& db) { return UpdateTry(db, row); });
  }

  std::shared_ptr<TryReservation> reservation;  // Null until it is reserved.
  TryRow row;
};

absl::StatusOr<WorkUnit> ProposalsService::TryUnit(const v1::TryProposalRequest& request,
                                                   OpenTry& open) {
  FETTLE_ASSIGN_OR_RETURN(const JobRow job, OpenJob(request.job_id()));
  std::int64_t tries = 0;
  FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(tries, CountTries(db, job.id));
    return absl::OkStatus();
  }));
  const std::shared_ptr<DeviceTime> time = parts_.jobs.DeviceTimeOf(job.id);
  if (time == nullptr) {
    return WithErrorCode(
        absl::UnavailableError(fmt::format("job {} waits for its turn to run; try again", job.id)),
        "job_not_started");
  }
  auto reservation = std::make_shared<TryReservation>(time);
  if (absl::Status fits = reservation->Reserve(); !fits.ok()) {
    const bool spent = absl::IsResourceExhausted(fits);
    return WithErrorCode(std::move(fits), spent ? "budget_spent" : "budget_reserved");
  }
  if (tries >= kMaxTries) {
    return WithErrorCode(
        absl::ResourceExhaustedError(fmt::format("the job has had its {} tries", kMaxTries)),
        "tries_spent");
  }
  FETTLE_ASSIGN_OR_RETURN(const auto task, TaskOf(job));
  FETTLE_RETURN_IF_ERROR(CheckCase(*task, request.only_case()));
  FETTLE_ASSIGN_OR_RETURN(const Resolved resolved, Resolve(*task, job, request.change()));
  std::optional<TaskRow> row;
  FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(row, FindTask(db, job.task_digest));
    return absl::OkStatus();
  }));
  if (!row.has_value()) return absl::DataLossError("the job's task is not in the store");
  WorkUnit unit;
  unit.kind = UnitKind::kEvaluate;
  unit.task_digest = job.task_digest;
  unit.task_blob = row->blob;
  unit.target = job.target;
  unit.device_model = job.device_model;
  unit.candidate = resolved.kernel;
  FETTLE_ASSIGN_OR_RETURN(unit.denominator, FindDenominator(parts_.store, *task, job));
  unit.seed = RandomSeed();
  unit.held_out_seed = RandomSeed();
  unit.screen = false;
  unit.only_case = request.only_case();
  unit.deadline_ms = limits::kConfirmDeadlineMs;
  const std::string& mode = request.mode();
  unit.measure = mode == "measure";
  unit.counters = mode == "counters";
  if (mode == "compile") {
    unit.kind = UnitKind::kCompile;
  } else if (mode == "bugs") {
    // Kernels for a GPU are looked at on the cpu target, which alone has a check mode.
    unit.check_mode = true;
    unit.target = "cpu";
    if (job.target != "cpu") unit.device_model.clear();
    if (!parts_.dispatcher.ChecksOnCpu()) {
      return WithErrorCode(errors::NoWorkerFor("cpu"), "no_worker");
    }
  } else if (mode != "check" && mode != "measure" && mode != "counters") {
    return BadMode();
  }
  unit.device_cap_ms = reservation->cap_ms();
  open.reservation = std::move(reservation);
  open.row.job_id = job.id;
  open.row.mode = mode;
  open.row.verdict = kOpenTry;
  open.row.device_ms = unit.device_cap_ms;
  open.row.created_ns = parts_.clock.NowNs();
  FETTLE_RETURN_IF_ERROR(
      parts_.store.Write([&](Connection& db) { return InsertTry(db, open.row); }));
  return unit;
}

absl::Status ProposalsService::EndTry(const v1::TryProposalRequest& request, OpenTry& open,
                                      const UnitEnd& outcome, v1::TryProposalResponse& response) {
  const json document = json::parse(outcome.result_json, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return absl::InternalError("the worker's result is not JSON");
  FETTLE_ASSIGN_OR_RETURN(UnitResult result, UnitResultFromJson(document));
  FETTLE_ASSIGN_OR_RETURN(const JobRow job, Job(request.job_id()));
  std::string verdict;
  if (result.verdict.has_value()) {
    result.verdict = WithoutSecrets(*result.verdict);
    verdict = std::string(VerdictName(result.verdict->verdict));
  }
  open.row.candidate_digest = CutText(outcome.unit.id, limits::kMaxNameBytes);
  const std::int64_t device_ms = DeviceMs(result.device_ns);
  FETTLE_RETURN_IF_ERROR(open.Settle(parts_.store, device_ms, std::move(verdict)));
  open.reservation->SawUnit(device_ms);
  FeedbackInput input;
  input.verdict = result.verdict.has_value() ? &*result.verdict : nullptr;
  input.evaluation = &result;
  if (result.measurement.has_value()) input.ratio = CombinedRatio(*result.measurement);
  json feedback = MakeFeedback(input, kMaxReplyBytes * 3 / 4);
  feedback["mode"] = request.mode();
  feedback["passed"] = !result.verdict.has_value();
  response.set_feedback_json(feedback.dump(-1, ' ', false, kReplaceInvalid));
  FETTLE_ASSIGN_OR_RETURN(*response.mutable_bar_json(), Bar(job));
  response.set_next_action(
      result.verdict.has_value() ? NextAction(*result.verdict)
      : request.mode() == "measure"
          ? "nothing counts until it is proposed: propose it if it beats the bar"
      : request.mode() == "counters"
          ? "counters explain a time, they are none: change what the kernel waits for, then measure"
          : "nothing wrong was found: measure it, or propose it");
  return absl::OkStatus();
}

ProposalsService::Unary* ProposalsService::TryProposal(Context* context,
                                                       const v1::TryProposalRequest* request,
                                                       v1::TryProposalResponse* response) {
  if (absl::Status allowed =
          parts_.access.CheckJob(*context, AccessRole::kPropose, request->job_id());
      !allowed.ok()) {
    return RefuseUnary(allowed);
  }
  const auto open = std::make_shared<OpenTry>();
  return UnitCall::Start(
      parts_.dispatcher, parts_.events, parts_.executor,
      [this, request, open] { return TryUnit(*request, *open); },
      [this, request, response, open](const UnitEnd& outcome) {
        return EndTry(*request, *open, outcome, *response);
      },
      [this, open](std::int64_t device_ms, bool last) {
        if (!last) return open->reservation->Charge(device_ms);
        const absl::Status stored = open->Settle(parts_.store, device_ms, "UNMEASURABLE");
        if (!stored.ok()) {
          spdlog::warn("device_time_not_stored job_id={} error={}", open->row.job_id,
                       StatusText(stored));
        }
      });
}

}  // namespace fettle
