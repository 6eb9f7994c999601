// SPDX-License-Identifier: Apache-2.0
#include "server/job_run.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include "core/status_macros.h"
#include "core/text.h"
#include "server/errors.h"
#include "server/job_events.h"
#include "server/job_kernels.h"
#include "server/job_measures.h"
#include "store/agent_call_store.h"
#include "store/candidate_store.h"
#include "store/job_store.h"
#include "store/variant_store.h"

namespace fettle {
namespace {

// The world may recover: the job waits and tries the same step again.
bool IsTransient(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
}

constexpr std::size_t kMaxNotes = 100;  // Waiting to be stored.
// Of its time, a job may lose to a crash a fiftieth, within these bounds.
constexpr std::int64_t kMinWallStoreMs = 5'000;
constexpr std::int64_t kMaxWallStoreMs = 60'000;
constexpr std::chrono::milliseconds kIdleTick{500};  // Budgets of time are looked at so often.

// Device time of a job that has ended, or was resumed since.
void ChargeEnded(Store& store,
                 const std::function<void(const std::string&, std::int64_t)>& charge_late,
                 const std::string& job_id, std::int64_t device_ms) {
  bool ended = false;
  const absl::Status stored = store.Write([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(ended, AddDeviceTime(db, job_id, device_ms));
    return absl::OkStatus();
  });
  if (!stored.ok()) {
    spdlog::warn("device_time_not_stored job_id={} device_ms={} error={}", job_id, device_ms,
                 StatusText(stored));
  } else if (!ended && charge_late) {
    charge_late(job_id, device_ms);
  }
}

std::string RefusalMessage(const std::string& result_json) {
  const auto json = nlohmann::json::parse(result_json, nullptr, /*allow_exceptions=*/false);
  const absl::StatusOr<UnitResult> result = UnitResultFromJson(json);
  if (!result.ok() || !result->verdict.has_value()) return "the task was refused";
  const VerdictRecord verdict = WithoutSecrets(*result->verdict);
  return fmt::format("the task was refused ({} {}): {}", StageName(verdict.stage),
                     verdict.reason_code, verdict.message);
}

}  // namespace

JobRun::JobRun(const JobContext& context, JobRow job)
    : context_(context),
      id_(job.id),
      job_(std::move(job)),
      evaluation_seeds_({RandomSeed(), RandomSeed()}) {}

JobRun::~JobRun() { Stop(); }

void JobRun::Stop() {
  propose_stop_.request_stop();
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  context_.store.Flush();
}

void JobRun::Cancel() {
  {
    const std::lock_guard lock(inbox_->mutex);
    inbox_->cancel = true;
  }
  propose_stop_.request_stop();
  inbox_->wake.notify_all();
}

// Counted with the job's next change, or once it has been idle for a tick: a transaction of its own
// would hold up the agent's next question.
void JobRun::CountCharges() {
  const std::lock_guard lock(inbox_->mutex);
  ++inbox_->charges;
}

void JobRun::AddNote(std::string code, std::string text) {
  {
    const std::lock_guard lock(inbox_->mutex);
    if (inbox_->notes.size() < kMaxNotes)
      inbox_->notes.emplace_back(std::move(code), std::move(text));
    inbox_->poked = true;
  }
  inbox_->wake.notify_all();
}

bool JobRun::mostly_waits() const { return MostlyWaits(job_.proposer); }

// A job that waits for hours changes nothing meanwhile, and a crash must not give them back to it.
bool JobRun::WallTimeOwed() const {
  if (job_.budget.wall_ms == 0 || job_.started_ns == 0) return false;
  const std::int64_t often = std::clamp(job_.budget.wall_ms / 50, kMinWallStoreMs, kMaxWallStoreMs);
  return OverTimeMs() + job_.budget.wall_ms - job_.spent.wall_ms >= often;
}

absl::Status JobRun::StoreCharges() {
  std::deque<std::pair<std::string, std::string>> notes;
  {
    const std::lock_guard lock(inbox_->mutex);
    notes = inbox_->notes;
    const bool recount = (idle_ && inbox_->charges != inbox_->counted) || WallTimeOwed() ||
                         device_time_->spent_ms() != job_.spent.device_ms;
    if (notes.empty() && !recount) return absl::OkStatus();
  }
  const absl::Status stored = Commit([&](Connection& db, JobRow& job) -> absl::Status {
    for (const auto& [code, text] : notes) {
      FETTLE_RETURN_IF_ERROR(AppendEvent(db, job, NoteEvent(code, text), context_.clock.NowNs(),
                                         /*terminal=*/false));
    }
    return absl::OkStatus();
  });
  if (!stored.ok()) return stored;
  const std::lock_guard lock(inbox_->mutex);
  inbox_->notes.erase(inbox_->notes.begin(),
                      inbox_->notes.begin() + static_cast<std::ptrdiff_t>(notes.size()));
  return absl::OkStatus();
}

void JobRun::Inbox::Poke() {
  {
    const std::lock_guard lock(mutex);
    poked = true;
  }
  wake.notify_all();
}

void JobRun::Poke() { inbox_->Poke(); }

std::string JobRun::waiting() const {
  const std::lock_guard lock(inbox_->mutex);
  return inbox_->waiting;
}

void JobRun::SetWaiting(std::string what) {
  const std::lock_guard lock(inbox_->mutex);
  inbox_->waiting = std::move(what);
}

JobDemand JobRun::demand() const {
  const std::lock_guard lock(inbox_->mutex);
  return inbox_->demand;
}

void JobRun::PublishDemand() {
  JobDemand demand;
  demand.job_id = id_;
  demand.target = job_.target;
  demand.device_model = job_.device_model;
  demand.toolchain = job_.toolchain;
  demand.account = options_.account;
  demand.partition = options_.partition;
  demand.qos = options_.qos;
  const auto open = static_cast<std::int64_t>(open_.size());
  if (job_.state == job_state::kQueued || job_.stage == job_stage::kRegister) {
    demand.units = 1;
  } else if (MostlyWaits(job_.proposer) && job_.stage == job_stage::kSearch) {
    demand.units = open;  // What comes next depends on somebody else.
  } else {
    // What the budget still allows; a proposer that has no more ends it sooner.
    std::int64_t more = limits::kUnlimitedCandidates;
    if (job_.budget.candidates > 0) more = job_.budget.candidates - job_.spent.candidates;
    if (job_.stage == job_stage::kTune) more = std::min(more, StageBudget() - stage_candidates_);
    if (proposer_ != nullptr && (proposer_->exhausted() || !StopReason().empty())) more = 0;
    demand.units = open + std::max<std::int64_t>(more, 0);
  }
  const std::lock_guard lock(inbox_->mutex);
  inbox_->demand = std::move(demand);
}

bool JobRun::cancel_requested() const {
  const std::lock_guard lock(inbox_->mutex);
  return inbox_->cancel;
}

std::optional<UnitEnd> JobRun::FrontOutcome() const {
  const std::lock_guard lock(inbox_->mutex);
  if (inbox_->outcomes.empty()) return std::nullopt;
  return inbox_->outcomes.front();
}

void JobRun::PopOutcome() {
  const std::lock_guard lock(inbox_->mutex);
  inbox_->outcomes.pop_front();
}

void JobRun::Start(std::function<void()> finished) {
  finished_ = std::move(finished);
  PublishDemand();
  thread_ = std::jthread([this](std::stop_token stop) {
    pthread_setname_np(pthread_self(), "job");
    Loop(std::move(stop));
  });
}

void JobRun::Loop(std::stop_token stop) {
  while (!stop.stop_requested()) {
    const absl::StatusOr<bool> progressed = Step(stop);
    if (stop.stop_requested()) return;
    if (progressed.ok()) {
      if (job_.terminal()) {
        ChargeUnhandled();
        finished_();
        return;
      }
      PublishDemand();
      if (*progressed) {
        SetWaiting("");
      } else {
        Wait(stop);
      }
      continue;
    }
    if (cancel_requested() && absl::IsCancelled(progressed.status())) continue;
    const std::string message = StatusText(progressed.status());
    if (IsTransient(progressed.status())) {
      SetWaiting("paused, will try again: " + message);
      if (paused_by_ != progressed.status().code()) {
        spdlog::warn("job_paused job_id={} error={}", id_, message);
        paused_by_ = progressed.status().code();
      }
      std::unique_lock lock(inbox_->mutex);
      inbox_->wake.wait_for(lock, stop, limits::kRetryPause, [] { return false; });
      continue;
    }
    spdlog::error("job_failed job_id={} error={}", id_, message);
    const absl::Status failed = Finish(job_state::kFailed, message);
    if (failed.ok()) {
      ChargeUnhandled();
      finished_();
      return;
    }
    if (!IsTransient(failed)) {
      // Nothing more can be stored; the job stays as it is for the next start.
      spdlog::error("job_stuck job_id={} error={}", id_, StatusText(failed));
      SetWaiting(message);
      return;
    }
  }
}

void JobRun::Wait(std::stop_token stop) {
  std::unique_lock lock(inbox_->mutex);
  idle_ = !inbox_->wake.wait_for(lock, stop, kIdleTick, [this] {
    return !inbox_->outcomes.empty() || inbox_->poked || inbox_->cancel;
  });
  inbox_->poked = false;
}

absl::Status JobRun::Commit(const Change& change) {
  JobRow next = job_;
  next.spent.device_ms = device_time_->spent_ms();
  if (next.started_ns != 0) {
    next.spent.wall_ms = wall_base_ms_ + std::chrono::duration_cast<std::chrono::milliseconds>(
                                             context_.clock.Steady() - wall_start_)
                                             .count();
  }
  std::int64_t counted = 0;
  {
    const std::lock_guard lock(inbox_->mutex);
    counted = inbox_->charges;
  }
  if (absl::Status stored = context_.store.WriteAhead([&](Connection& db) -> absl::Status {
        FETTLE_RETURN_IF_ERROR(change(db, next));
        if (UsesModels(next.proposer)) {
          FETTLE_ASSIGN_OR_RETURN(const AgentCharges charges, SumAgentCalls(db, id_));
          next.spent.tokens = charges.tokens;
          next.spent.usd = charges.usd;
        }
        return UpdateJob(db, next);
      });
      !stored.ok()) {
    return stored;
  }
  if (paused_by_ != absl::StatusCode::kOk) spdlog::info("job_goes_on job_id={}", id_);
  paused_by_ = absl::StatusCode::kOk;
  {
    const std::lock_guard lock(inbox_->mutex);
    inbox_->counted = counted;
  }
  const bool rang = next.last_sequence != job_.last_sequence;
  job_ = std::move(next);
  if (rang) context_.events.Ring(id_);
  return absl::OkStatus();
}

absl::StatusOr<bool> JobRun::Step(std::stop_token stop) {
  if (cancel_requested()) {
    FETTLE_RETURN_IF_ERROR(Finish(job_state::kCancelled, "cancelled on request"));
    return true;
  }
  FETTLE_RETURN_IF_ERROR(StoreCharges());
  if (job_.state == job_state::kQueued) return StepStart();
  if (const std::optional<UnitEnd> outcome = FrontOutcome()) {
    FETTLE_RETURN_IF_ERROR(HandleOutcome(*outcome));
    PopOutcome();
    return true;
  }
  if (job_.stage == job_stage::kRegister) return StepRegister();
  return StepSearch(std::move(stop));
}

absl::Status JobRun::LoadTask() {
  FETTLE_RETURN_IF_ERROR(context_.store.ReadAhead([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(std::optional<TaskRow> row, FindTask(db, job_.task_digest));
    if (!row.has_value()) return absl::DataLossError("the job's task is not in the store");
    task_row_ = *std::move(row);
    return absl::OkStatus();
  }));
  FETTLE_ASSIGN_OR_RETURN(const std::string blob, context_.store.blobs().Get(task_row_.blob));
  FETTLE_ASSIGN_OR_RETURN(TaskFiles files, UnpackTaskFiles(blob));
  std::vector<TaskProblem> problems;
  FETTLE_ASSIGN_OR_RETURN(task_, Task::Parse(std::move(files), &problems));
  FETTLE_ASSIGN_OR_RETURN(options_, ParseJobOptions(job_.options_json));
  if (job_.target != "auto") {
    FETTLE_ASSIGN_OR_RETURN(target_, FindTarget(job_.target));
  }
  return absl::OkStatus();
}

absl::Status JobRun::Restore() {
  FETTLE_RETURN_IF_ERROR(LoadTask());
  wall_base_ms_ = job_.spent.wall_ms;
  wall_start_ = context_.clock.Steady();
  if (job_.cancel_requested) inbox_->cancel = true;
  FETTLE_RETURN_IF_ERROR(RestoreDeviceTime());
  if (job_.state != job_state::kRunning) return absl::OkStatus();

  std::vector<UnitRow> open_units;
  std::vector<CandidateRow> open_rows;
  FETTLE_RETURN_IF_ERROR(context_.store.ReadAhead([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(open_units, OpenUnits(db, id_));
    FETTLE_ASSIGN_OR_RETURN(open_rows, OpenCandidates(db, id_));
    return absl::OkStatus();
  }));
  if (job_.stage == job_stage::kRegister) {
    const std::string unit_id = UnitId(id_, 0, UnitPurpose::kRegister);
    for (const UnitRow& unit : open_units) {
      if (unit.id != unit_id) continue;
      register_sent_ = true;
      ReserveOpen(0, open_units);
      FETTLE_RETURN_IF_ERROR(RestoreUnit(unit_id, 0, UnitPurpose::kRegister, open_units));
    }
    return absl::OkStatus();
  }
  FETTLE_RETURN_IF_ERROR(LoadDenominator());
  for (const CandidateRow& row : open_rows) ReserveOpen(row.ordinal, open_units);
  for (CandidateRow& row : open_rows) {
    FETTLE_ASSIGN_OR_RETURN(KernelUnderTest kernel, LoadKernel(context_.store, row));
    const std::int64_t ordinal = row.ordinal;
    const bool confirming = row.state == candidate_state::kConfirming;
    std::optional<EvaluationRow> measured, confirmed;
    if (confirming) {
      FETTLE_RETURN_IF_ERROR(context_.store.ReadAhead([&](Connection& db) -> absl::Status {
        FETTLE_ASSIGN_OR_RETURN(measured,
                                FindEvaluation(db, UnitId(id_, ordinal, UnitPurpose::kEvaluate)));
        FETTLE_ASSIGN_OR_RETURN(confirmed,
                                FindEvaluation(db, UnitId(id_, ordinal, UnitPurpose::kConfirm)));
        return absl::OkStatus();
      }));
    }
    open_[ordinal] = {std::move(row), std::move(kernel), confirming,
                      measured.has_value() ? measured->worker_id : "", confirmed.has_value()};
    if (!confirming) {
      FETTLE_RETURN_IF_ERROR(RestoreUnit(UnitId(id_, ordinal, UnitPurpose::kEvaluate), ordinal,
                                         UnitPurpose::kEvaluate, open_units));
      continue;
    }
    const UnitPurpose purpose = open_[ordinal].confirmation();
    const std::string unit_id = UnitId(id_, ordinal, purpose);
    bool under_way = false;
    for (const UnitRow& unit : open_units) under_way |= unit.id == unit_id;
    if (under_way) {
      confirming_ = ordinal;
      FETTLE_RETURN_IF_ERROR(RestoreUnit(unit_id, ordinal, purpose, open_units));
    } else {
      confirm_queue_.push_back(ordinal);
    }
  }
  return absl::OkStatus();
}

absl::Status JobRun::RestoreDeviceTime() {
  DeviceSums sums;
  FETTLE_RETURN_IF_ERROR(context_.store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(sums, SumDeviceTime(db, id_));
    return absl::OkStatus();
  }));
  // Tries that were in flight when the server ended are in no job's row.
  device_time_->Start(job_.budget.device_ms, std::max(job_.spent.device_ms, sums.spent_ms),
                      sums.longest_ms);
  return absl::OkStatus();
}

void JobRun::ReserveOpen(std::int64_t ordinal, const std::vector<UnitRow>& open) {
  for (const UnitRow& unit : open) {
    if (unit.ordinal != ordinal || unit.device_cap_ms == 0) continue;
    // By its confirmation.
    const bool followed = unit.kind == UnitKindName(UnitKind::kEvaluate);
    device_time_->Keep(ReservationOf(ordinal), unit.device_cap_ms * (followed ? 2 : 1));
  }
}

absl::Status JobRun::RestoreUnit(const std::string& unit_id, std::int64_t ordinal,
                                 UnitPurpose purpose, const std::vector<UnitRow>& open) {
  std::vector<UnitRow> attempts;
  FETTLE_RETURN_IF_ERROR(context_.store.ReadAhead([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(attempts, UnitAttempts(db, unit_id));
    return absl::OkStatus();
  }));
  UnitHistory history;
  for (const UnitRow& unit : attempts) {
    if (unit.state != unit_state::kReturned) continue;
    if (!unit.reason.starts_with(kNotCounted)) ++history.failures;
    if (unit.reason.starts_with(std::string(kNotCounted) + kWorkerGone)) ++history.deaths;
  }
  std::optional<UnitRow> row;
  for (const UnitRow& unit : open) {
    if (unit.id == unit_id) row = unit;
  }
  if (!row.has_value()) {
    // The job was cancelled or failed and is resumed: a new attempt.
    device_time_->ReserveRest(ReservationOf(ordinal));
    row = NewUnit(ordinal, purpose);
    history = {};
    if (!attempts.empty()) row->attempt = attempts.back().attempt + 1;
    FETTLE_RETURN_IF_ERROR(
        context_.store.WriteAhead([&](Connection& db) { return InsertUnit(db, *row); }));
  }
  const auto found = open_.find(ordinal);
  WorkUnit work = MakeWork(*row, found == open_.end() ? nullptr : &found->second.kernel);
  Dispatch(*std::move(row), std::move(work), history);
  return absl::OkStatus();
}

absl::StatusOr<bool> JobRun::StepStart() {
  const std::optional<DeviceChoice> choice = context_.dispatcher.Choose(job_.target, id_);
  if (!choice.has_value()) {
    SetWaiting(job_.target == "auto"
                   ? "waits for a worker; start one with `fettle worker`"
                   : fmt::format("waits for a worker with a device of target {}", job_.target));
    return false;
  }
  absl::StatusOr<Target> target = FindTarget(choice->target);
  FETTLE_RETURN_IF_ERROR(target.status());
  const bool first = job_.started_ns == 0;
  if (absl::Status stored = Commit([&](Connection& db, JobRow& job) -> absl::Status {
        const std::int64_t now = context_.clock.NowNs();
        job.state = job_state::kRunning;
        job.message.clear();
        if (first) {
          job.started_ns = now;
          job.target = choice->target;
          job.device_model = choice->device_model;
          job.toolchain = choice->toolchain;
          job.space_size = std::to_string(SpaceSize(task_->baseline().tunables));
        }
        FETTLE_RETURN_IF_ERROR(AppendEvent(db, job, StateEvent(job), now, /*terminal=*/false));
        return AppendEvent(
            db, job, StageEvent(job.stage, fmt::format("on {} ({})", job.target, job.device_model)),
            now, /*terminal=*/false);
      });
      !stored.ok()) {
    return stored;
  }
  target_ = *std::move(target);
  wall_start_ = context_.clock.Steady();
  // A resumed job has candidates under way.
  if (!first) FETTLE_RETURN_IF_ERROR(Restore());
  return true;
}

absl::StatusOr<bool> JobRun::StepRegister() {
  if (OverTimeMs() >= 0) {
    FETTLE_RETURN_IF_ERROR(Finish(
        job_state::kSucceeded,
        fmt::format("stopped: the time of {} s is over before the task was checked; a resumed job "
                    "checks it again",
                    static_cast<double>(job_.budget.wall_ms) / 1000)));
    return true;
  }
  if (register_sent_) return false;
  UnitRow row = NewUnit(0, UnitPurpose::kRegister);
  std::optional<RegistrationRow> known;
  std::optional<EvaluationRow> own;
  std::vector<UnitRow> attempts;
  FETTLE_RETURN_IF_ERROR(context_.store.ReadAhead([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(known,
                            FindRegistration(db, job_.task_digest, job_.target, context_.version));
    FETTLE_ASSIGN_OR_RETURN(own, FindEvaluation(db, row.id));
    FETTLE_ASSIGN_OR_RETURN(attempts, UnitAttempts(db, row.id));
    return absl::OkStatus();
  }));
  if (known.has_value() && known->passed) {
    FETTLE_RETURN_IF_ERROR(EnterSearch());
    return true;
  }
  // A refusal is final for this job; another job may try again.
  if (own.has_value()) {
    FETTLE_RETURN_IF_ERROR(Finish(job_state::kFailed, RefusalMessage(own->result_json)));
    return true;
  }
  if (!attempts.empty()) row.attempt = attempts.back().attempt + 1;  // A resumed job.
  if (const auto reserved = device_time_->Reserve(ReservationOf(0), 1, /*shares=*/1);
      !reserved.ok()) {
    FETTLE_RETURN_IF_ERROR(FinishUnchecked());
    return true;
  }
  row.device_cap_ms = device_time_->CapOf(ReservationOf(0));
  FETTLE_RETURN_IF_ERROR(
      context_.store.WriteAhead([&](Connection& db) { return InsertUnit(db, row); }));
  register_sent_ = true;
  WorkUnit work = MakeWork(row, nullptr);
  Dispatch(std::move(row), std::move(work), {});
  return true;
}

absl::Status JobRun::EnterSearch() {
  const bool is_tuner = job_.proposer == "tuner";
  std::optional<VariantRow> tuned;
  if (!is_tuner) {
    FETTLE_RETURN_IF_ERROR(context_.store.ReadAhead([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(tuned, FindTunedBaseline(db, job_.task_digest, job_.target,
                                                       job_.device_model, job_.toolchain));
      return absl::OkStatus();
    }));
  }
  const bool must_tune =
      !is_tuner && !tuned.has_value() && SpaceSize(task_->baseline().tunables) > 1;
  return Commit([&](Connection& db, JobRow& job) -> absl::Status {
    job.stage = must_tune ? job_stage::kTune : job_stage::kSearch;
    std::string message = "the task passed its checks; ";
    if (must_tune) {
      message += "finding the tuned baseline first";
    } else if (is_tuner) {
      message += "searching against the declared baseline";
    } else {
      job.tuned_variant = tuned.has_value() ? tuned->id : "";
      job.tuned_ratio = tuned.has_value() ? tuned->ratio_declared : 1;
      message += tuned.has_value()
                     ? fmt::format("searching against the tuned baseline {}", tuned->id)
                     : "the baseline has one configuration, which is the tuned baseline";
    }
    return AppendEvent(db, job, StageEvent(job.stage, message), context_.clock.NowNs(),
                       /*terminal=*/false);
  });
}

absl::Status JobRun::EndStage(const std::string& reason) {
  // Out of time, the job ends where it is: resumed, it goes on tuning.
  if (job_.stage == job_stage::kTune && OverTimeMs() < 0) {
    FETTLE_RETURN_IF_ERROR(Commit([&](Connection& db, JobRow& job) -> absl::Status {
      job.stage = job_stage::kSearch;
      job.tuned_variant = job.best_variant;
      job.tuned_ratio = job.best_variant.empty() ? 1 : job.best_ratio_declared;
      job.incumbent_ordinal = 0;
      job.incumbent_ratio = 1;
      job.since_improvement = 0;
      return AppendEvent(
          db, job,
          StageEvent(job.stage, fmt::format("tuned baseline found ({}): {:.3f}x over the declared "
                                            "one",
                                            reason, job.tuned_ratio)),
          context_.clock.NowNs(), /*terminal=*/false);
    }));
    proposer_.reset();
    incumbent_.reset();
    incumbent_roofline_ = 0;
    duplicate_rounds_ = 0;
    return LoadDenominator();
  }
  std::string best = "no variant was faster than the baseline";
  if (!job_.best_variant.empty()) {
    best = fmt::format("best variant {}: {:.3f}x over the declared baseline", job_.best_variant,
                       job_.best_ratio_declared);
    if (job_.proposer != "tuner" && job_.best_ratio_tuned > 0) {
      best += fmt::format(", {:.3f}x over the tuned one", job_.best_ratio_tuned);
    }
  }
  if (given_back_ > 0) {
    best += fmt::format("; {} candidates under way were given back{}", given_back_,
                        EnoughReason().empty() ? ", a resumed job goes on with them" : "");
  }
  return Finish(job_state::kSucceeded, fmt::format("stopped: {}; {}", reason, best));
}

absl::Status JobRun::FinishUnchecked() {
  return Finish(
      job_state::kSucceeded,
      fmt::format("stopped: the device time of {} s is spent before the task was checked; "
                  "a job with more of it, or this one resumed, checks it again",
                  static_cast<double>(job_.budget.device_ms) / 1000));
}

void JobRun::ChargeUnhandled() {
  std::deque<UnitEnd> outcomes;
  {
    const std::lock_guard lock(inbox_->mutex);
    inbox_->ended = true;
    outcomes.swap(inbox_->outcomes);
  }
  for (const UnitEnd& outcome : outcomes) {
    device_time_->Charge(ReservationOf(outcome.unit.ordinal),
                         DeviceMsOf(outcome.result_json).value_or(0));
  }
}

absl::Status JobRun::Finish(const char* state, const std::string& message) {
  if (absl::Status stored = Commit([&](Connection& db, JobRow& job) -> absl::Status {
        const std::int64_t now = context_.clock.NowNs();
        job.state = state;
        job.message = CutText(message, limits::kMaxErrorMessageBytes);
        job.finished_ns = now;
        FETTLE_RETURN_IF_ERROR(SetCancelRequested(db, id_, /*requested=*/false));
        FETTLE_RETURN_IF_ERROR(CancelOpenUnits(db, id_, now));
        return AppendEvent(db, job, StateEvent(job), now, /*terminal=*/true);
      });
      !stored.ok()) {
    return stored;
  }
  // From now on what units say that they took goes to the stored job.
  const std::int64_t late_ms =
      device_time_->End([&store = context_.store, charge_late = context_.charge_late,
                         id = id_](std::int64_t ms) { ChargeEnded(store, charge_late, id, ms); });
  if (late_ms > job_.spent.device_ms) {
    ChargeEnded(context_.store, context_.charge_late, id_, late_ms - job_.spent.device_ms);
  }
  context_.dispatcher.CancelJob(id_);
  spdlog::info("job_ended job_id={} state={} message={}", id_, state, message);
  return absl::OkStatus();
}

}  // namespace fettle
