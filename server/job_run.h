// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <absl/status/statusor.h>
#include <fmt/format.h>

#include "agent/proposer.h"
#include "core/clock.h"
#include "core/work_unit.h"
#include "fettle/v1/optimizer.pb.h"
#include "judge/accept.h"
#include "server/device_time.h"
#include "server/dispatcher.h"
#include "server/event_hub.h"
#include "server/fleet/job_demand.h"
#include "server/ids.h"
#include "server/job_options.h"
#include "store/records.h"
#include "store/store.h"

namespace fettle {

struct FleetConfig;

// What every job works with; all of it outlives the jobs.
struct JobContext {
  Store& store;
  Dispatcher& dispatcher;
  EventHub& events;
  Clock& clock;
  ProposerFactory proposers;
  judge::AcceptanceRule rule;
  std::string version;  // fettle's own.
  std::vector<std::string> proposer_kinds;
  AgentServices* agent = nullptr;  // Null: no models.
  // Targets whose workers the server has started; null: none.
  const FleetConfig* fleet = nullptr;
  // Device time of a job that is not this run of it any more. Set by the JobManager.
  std::function<void(const std::string& job_id, std::int64_t device_ms)> charge_late;
};

// Drives one job on a thread of its own: register, tune, search, confirm, accept. Every step is one
// transaction that holds a result, its verdict, the job's counters and the events; the in-memory
// state changes only after it, so that a crash at any moment resumes from the last one.
class JobRun {
 public:
  JobRun(const JobContext& context, JobRow job);
  ~JobRun();

  // Loads the task and hands open units to the dispatcher. Call before Start.
  absl::Status Restore();
  // `finished` is called on the job's thread when the job has ended (not on Stop).
  void Start(std::function<void()> finished);

  void Cancel();
  // Something outside changed: workers, or what clients handed in.
  void Poke();
  // The job's budget of device time.
  const std::shared_ptr<DeviceTime>& device_time() const { return device_time_; }
  // A line for the job's events.
  void AddNote(std::string code, std::string text);
  // Whether the job mostly waits for others: such jobs take no place from those that compute.
  bool mostly_waits() const;
  // Ends the thread; everything stored stays as it is. Idempotent.
  void Stop();

  const std::string& id() const { return id_; }
  // What the job waits for at the moment, if anything ("no worker ...", "disk full ...").
  std::string waiting() const;
  // What it could keep busy now.
  JobDemand demand() const;

 private:
  // Outcomes on their way from the dispatcher's thread; outlives the job when one is late.
  struct Inbox {
    void Poke();

    std::mutex mutex;
    std::condition_variable_any wake;
    std::deque<UnitEnd> outcomes;  // Guarded by mutex.
    bool poked = false;            // Guarded by mutex. Something else changed.
    bool cancel = false;           // Guarded by mutex.
    bool ended = false;            // Guarded by mutex. Nobody handles outcomes any more.
    // Guarded by mutex. How often what calls cost has changed, and up to which change it is in the
    // job's row.
    std::int64_t charges = 0, counted = 0;
    std::deque<std::pair<std::string, std::string>> notes;  // Guarded by mutex. (code, text).
    std::string waiting;                                    // Guarded by mutex.
    JobDemand demand;                                       // Guarded by mutex.
  };
  // A candidate under way.
  struct Open {
    CandidateRow row;
    KernelUnderTest kernel;
    bool confirm_queued = false;  // Its confirmation waits for its turn or runs.
    std::string measured_by;      // The worker of its evaluation.
    bool again = false;           // That is its second one: the first left it open.
    UnitPurpose confirmation() const {
      return again ? UnitPurpose::kConfirmAgain : UnitPurpose::kConfirm;
    }
  };
  // What became of a unit's earlier attempts.
  struct UnitHistory {
    int failures = 0, deaths = 0;
  };
  using Change = std::function<absl::Status(Connection&, JobRow&)>;

  void Loop(std::stop_token stop);
  void Wait(std::stop_token stop);
  void SetWaiting(std::string what);
  void PublishDemand();
  bool cancel_requested() const;
  std::optional<UnitEnd> FrontOutcome() const;
  void PopOutcome();

  // One transaction: `change` works on a copy of the row, which replaces job_ once it is stored. It
  // may not be on the disk yet, and what the job does next is not without it; others hear of it
  // through Store::Read and SettleWhenDurable, which wait.
  absl::Status Commit(const Change& change);

  // Each returns whether it did anything.
  absl::StatusOr<bool> Step(std::stop_token stop);
  absl::Status StoreCharges();
  // Whether much of its time is not stored yet.
  bool WallTimeOwed() const;
  // What a call to a model costs has changed.
  void CountCharges();
  // Takes up the device time of a job, ended ones included.
  absl::Status RestoreDeviceTime();
  // Reserves again what open units have.
  void ReserveOpen(std::int64_t ordinal, const std::vector<UnitRow>& open);
  absl::StatusOr<bool> StepStart();
  absl::StatusOr<bool> StepRegister();
  absl::StatusOr<bool> StepSearch(std::stop_token stop);

  absl::Status LoadTask();
  absl::Status RestoreUnit(const std::string& unit_id, std::int64_t ordinal, UnitPurpose purpose,
                           const std::vector<UnitRow>& open);
  absl::Status EnterSearch();
  absl::Status EndStage(const std::string& reason);
  // Milliseconds past the job's budget of time; negative within it or without one.
  std::int64_t OverTimeMs() const;
  // Gives evaluations under way back, and confirmations too once their grace is over. Their
  // candidates stay open, and a resumed job goes on with them.
  void GiveBackLate();
  // Open candidates, those that are to be confirmed too or not; they stay open in the store.
  void GiveBack(bool confirmations_too);
  absl::Status Finish(const char* state, const std::string& message);
  // The device time is spent before the task was checked.
  absl::Status FinishUnchecked();
  // Of results that came too late for the job.
  void ChargeUnhandled();

  // --- Search (job_search.cc).
  absl::Status PrepareSearch();
  absl::Status LoadDenominator();
  absl::Status ReplayOutcomes();
  // Kernels whose tunables clients asked to fit.
  absl::Status RestoreFits();
  std::string StopReason() const;
  // Of `speedup_stop`; empty: not yet.
  std::string EnoughReason() const;
  // Candidates that the budget of device time allows beside what is under way, each with its
  // confirmation. The first one goes alone: it tells how long they take.
  std::int64_t DeviceRoom() const;
  int Window() const;
  std::int64_t StageBudget() const;
  absl::StatusOr<int> ProposeMore(int room);
  // Takes up to `room` proposals that clients handed in; returns how many.
  absl::StatusOr<int> TakeProposals(int room);
  Open MakeOpen(const Proposal& proposal) const;
  // `also` runs in the same transaction; may be empty.
  absl::Status AddCandidates(std::vector<Open> fresh,
                             const std::function<absl::Status(Connection&)>& also = {});
  absl::StatusOr<bool> StartConfirmation();
  // Its device_cap_ms is what is reserved for it.
  // What the units of a candidate are reserved under; 0: registration.
  static std::string ReservationOf(std::int64_t ordinal) { return fmt::format("unit/{}", ordinal); }
  // Charges a stored result.
  void ChargeUnit(const UnitEnd& outcome, const UnitResult& result);
  UnitRow NewUnit(std::int64_t ordinal, UnitPurpose purpose) const;
  WorkUnit MakeWork(const UnitRow& row, const KernelUnderTest* kernel) const;
  void Dispatch(UnitRow row, WorkUnit work, const UnitHistory& history);

  // --- Results (job_results.cc).
  absl::Status HandleOutcome(const UnitEnd& outcome);
  // The worker may forget a result once it is on the disk here.
  void SettleWhenDurable(const std::string& unit_id);
  absl::Status HandleRegistration(const UnitEnd& outcome, const UnitResult& result);
  absl::Status HandleEvaluation(const UnitEnd& outcome, const UnitResult& result);
  absl::Status HandleConfirmation(const UnitEnd& outcome, const UnitResult& result);
  // [{attempt, worker, reason, leased_ns, ended_ns}] of a unit.
  absl::StatusOr<nlohmann::json> AttemptsOf(const std::string& unit_id) const;
  absl::Status HandlePoison(const UnitEnd& outcome);
  // A better variant was accepted while this contender waited for its confirmation.
  absl::Status DropContender(CandidateRow row);
  // Ends a candidate: its row, the job's counters and a CandidateJudged event.
  absl::Status StoreVerdict(Connection& db, JobRow& job, CandidateRow& row,
                            const VerdictRecord& verdict, double ratio);
  absl::Status StoreUnitResult(Connection& db, JobRow& job, const UnitEnd& outcome,
                               const UnitResult& result);
  void Judged(const CandidateRow& row, const VerdictRecord& verdict);
  absl::StatusOr<VariantRow> MakeVariant(const Open& open, const UnitEnd& outcome,
                                         const UnitResult& result,
                                         const judge::ConfirmationDecision& decision);

  JobContext context_;
  const std::string id_;
  JobRow job_;
  JobOptions options_;
  std::shared_ptr<const Task> task_;
  TaskRow task_row_;
  Target target_;
  std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  // Outlives the job when a unit says late what it took.
  const std::shared_ptr<DeviceTime> device_time_ =
      std::make_shared<DeviceTime>([inbox = inbox_] { inbox->Poke(); });

  bool register_sent_ = false;
  std::unique_ptr<Proposer> proposer_;  // Of the current stage; unset until PrepareSearch.
  KernelUnderTest denominator_;
  std::optional<KernelUnderTest> incumbent_;
  double incumbent_roofline_ = 0;
  std::map<std::int64_t, Open> open_;       // By ordinal.
  std::deque<std::int64_t> confirm_queue_;  // Contenders, as they came.
  std::int64_t confirming_ = 0;             // Ordinal under confirmation; 0: none.
  std::int64_t stage_candidates_ = 0;       // Proposed in this stage.
  std::int64_t given_back_ = 0;             // Candidates that the end of the time left unjudged.
  bool idle_ = false;                       // Nothing happened for a tick.
  // Why the job is paused, logged once: a disk may stay full for hours. kOk: it is not.
  absl::StatusCode paused_by_ = absl::StatusCode::kOk;
  int duplicate_rounds_ = 0;
  int poison_in_a_row_ = 0;
  // Evaluations share few seeds, so that the expected outputs of one serve the next; confirmations
  // get fresh ones. Secret, and anew with every start of the server.
  std::vector<std::uint64_t> evaluation_seeds_;
  std::int64_t wall_base_ms_ = 0;
  std::chrono::steady_clock::time_point wall_start_;

  std::stop_source propose_stop_;  // Also ends a Propose under way on cancel.
  std::function<void()> finished_;
  std::jthread thread_;  // Last.
};

}  // namespace fettle
