// SPDX-License-Identifier: Apache-2.0
#include "server/job_manager.h"

#include <algorithm>

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include "core/digest.h"
#include "core/portable_target.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "server/errors.h"
#include "server/fleet/fleet_config.h"
#include "server/job_events.h"
#include "store/job_store.h"

namespace fettle {
namespace {

constexpr std::chrono::milliseconds kCancelWait{2'000};

BudgetRow BudgetFromProto(const v1::Budget& budget) {
  return {budget.candidates(), budget.wall_ms(), budget.device_ms(), budget.tokens(), budget.usd()};
}

absl::Status CheckBudget(const v1::Budget& budget, bool required) {
  if (budget.candidates() < 0 || budget.candidates() > limits::kMaxBudgetCandidates) {
    return errors::BadField("budget.candidates",
                            fmt::format("must be 0 to {}", limits::kMaxBudgetCandidates));
  }
  if (budget.wall_ms() < 0) return errors::BadField("budget.wall_ms", "must not be negative");
  if (budget.device_ms() < 0) return errors::BadField("budget.device_ms", "must not be negative");
  if (budget.tokens() < 0) return errors::BadField("budget.tokens", "must not be negative");
  if (!(budget.usd() >= 0)) return errors::BadField("budget.usd", "must not be negative");
  if (required && budget.candidates() == 0 && budget.wall_ms() == 0 && budget.device_ms() == 0 &&
      budget.tokens() == 0 && budget.usd() == 0) {
    return errors::BadField("budget", "set at least one limit, such as candidates");
  }
  return absl::OkStatus();
}

// What a job says about its workers is an error where nobody reads it.
absl::Status CheckWorkers(const v1::SubmitJobRequest& request, const FleetConfig* fleet) {
  FETTLE_ASSIGN_OR_RETURN(const JobOptions options, ParseJobOptions(request.options_json()));
  if (options.account.empty() && options.partition.empty() && options.qos.empty()) {
    return absl::OkStatus();
  }
  if (fleet != nullptr &&
      (request.target() == "auto" || fleet->targets.contains(request.target()))) {
    return absl::OkStatus();
  }
  return errors::BadField(
      "options_json", fmt::format("account, partition and qos are for workers that the server has "
                                  "Slurm start, and it has none started for {}; see `fettle serve "
                                  "--fleet`",
                                  request.target()));
}

absl::Status CheckSubmit(const v1::SubmitJobRequest& request,
                         const std::vector<std::string>& proposers, const FleetConfig* fleet) {
  if (request.request_id().size() > limits::kMaxNameBytes) {
    return errors::TooLong("request_id", request.request_id().size(), limits::kMaxNameBytes);
  }
  if (request.task_blob().empty()) return errors::BadField("task_blob", "must hold a task folder");
  if (request.task_blob().size() > limits::kMaxTaskBlobBytes) {
    return errors::TooLong("task_blob", request.task_blob().size(), limits::kMaxTaskBlobBytes);
  }
  if (request.options_json().size() > limits::kMaxOptionsBytes) {
    return errors::TooLong("options_json", request.options_json().size(), limits::kMaxOptionsBytes);
  }
  if (request.target() != "auto") {
    if (absl::StatusOr<Target> target = FindDeviceTarget(request.target()); !target.ok()) {
      return errors::BadField("target", StatusText(target.status()));
    }
  }
  if (std::find(proposers.begin(), proposers.end(), request.proposer()) == proposers.end()) {
    return errors::BadField("proposer",
                            fmt::format("'{}' is not known; there are {}", request.proposer(),
                                        fmt::join(proposers, ", ")));
  }
  FETTLE_RETURN_IF_ERROR(CheckBudget(request.budget(), /*required=*/true));
  return CheckWorkers(request, fleet);
}

absl::StatusOr<std::shared_ptr<const Task>> ParseTaskBlob(const std::string& blob) {
  absl::StatusOr<TaskFiles> files = UnpackTaskFiles(blob);
  if (!files.ok()) return errors::BadField("task_blob", StatusText(files.status()));
  std::vector<TaskProblem> problems;
  absl::StatusOr<std::shared_ptr<const Task>> task = Task::Parse(*std::move(files), &problems);
  if (!task.ok()) {
    return absl::InvalidArgumentError(fmt::format(
        "task_blob: {}", problems.empty() ? StatusText(task.status()) : FormatProblems(problems)));
  }
  return task;
}

absl::StatusOr<JobRow> ReadJob(const Store& store, const std::string& id) {
  std::optional<JobRow> row;
  FETTLE_RETURN_IF_ERROR(store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(row, FindJob(db, id));
    return absl::OkStatus();
  }));
  if (!row.has_value()) return errors::NoSuchJob(id);
  return *std::move(row);
}

// Ends a job that no thread drives.
absl::Status EndStored(const JobContext& context, JobRow job, const char* state,
                       const std::string& message) {
  const std::int64_t now = context.clock.NowNs();
  job.state = state;
  job.message = CutText(message, limits::kMaxErrorMessageBytes);
  job.finished_ns = now;
  if (absl::Status stored = context.store.Write([&](Connection& db) -> absl::Status {
        FETTLE_RETURN_IF_ERROR(SetCancelRequested(db, job.id, /*requested=*/false));
        FETTLE_RETURN_IF_ERROR(AppendEvent(db, job, StateEvent(job), now, /*terminal=*/true));
        return UpdateJob(db, job);
      });
      !stored.ok()) {
    return stored;
  }
  context.events.Ring(job.id);
  return absl::OkStatus();
}

}  // namespace

JobManager::JobManager(JobContext context) : context_(std::move(context)) {
  context_.charge_late = [this](const std::string& job_id, std::int64_t device_ms) {
    if (const auto time = DeviceTimeOf(job_id)) time->Charge("", device_ms);
    Poke(job_id);
  };
  reaper_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "job-reaper");
    Reap();
  });
}

JobManager::~JobManager() { Stop(); }

absl::Status JobManager::Start() {
  std::vector<Queued> running;
  std::vector<Queued> queued;
  FETTLE_RETURN_IF_ERROR(context_.store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(const std::vector<std::string> ids, OpenJobs(db));
    for (const std::string& id : ids) {
      FETTLE_ASSIGN_OR_RETURN(const std::optional<JobRow> row, FindJob(db, id));
      (row->state == job_state::kRunning ? running : queued)
          .push_back({id, MostlyWaits(row->proposer)});
    }
    return absl::OkStatus();
  }));
  const std::lock_guard lock(mutex_);
  queue_.assign(running.begin(), running.end());
  queue_.insert(queue_.end(), queued.begin(), queued.end());
  Fill();
  return absl::OkStatus();
}

void JobManager::Stop() {
  std::map<std::string, std::unique_ptr<JobRun>> active;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    active.swap(active_);
  }
  reap_wake_.notify_all();
  for (auto& [id, run] : active) run->Stop();
  if (reaper_.joinable()) reaper_.join();
  const std::lock_guard lock(mutex_);
  ended_.clear();
}

void JobManager::Reap() {
  while (true) {
    std::vector<std::unique_ptr<JobRun>> ended;
    {
      std::unique_lock lock(mutex_);
      reap_wake_.wait(lock, [this] { return stopping_ || !ended_.empty(); });
      if (stopping_) return;
      ended.swap(ended_);
      Fill();
    }
    ended.clear();  // Joins their threads, outside the lock.
  }
}

void JobManager::RunHasEnded(const std::string& job_id) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = active_.find(job_id);
    if (found == active_.end()) return;
    ended_.push_back(std::move(found->second));
    active_.erase(found);
  }
  reap_wake_.notify_all();
  if (jobs_changed_) jobs_changed_();
}

void JobManager::Fill() {
  while (!stopping_) {
    const auto computing =
        static_cast<int>(std::count_if(active_.begin(), active_.end(), [](const auto& entry) {
          return !entry.second->mostly_waits();
        }));
    const int waiting = static_cast<int>(active_.size()) - computing;
    // A job that is resumed while its last thread still ends waits for that.
    const auto next = std::find_if(queue_.begin(), queue_.end(), [&](const Queued& one) {
      const bool room =
          one.waits ? waiting < limits::kMaxWaitingJobs : computing < limits::kMaxActiveJobs;
      return room && active_.find(one.id) == active_.end();
    });
    if (next == queue_.end()) return;
    const std::string id = next->id;
    queue_.erase(next);
    absl::StatusOr<JobRow> row = ReadJob(context_.store, id);
    if (!row.ok()) {
      spdlog::error("job_not_loaded job_id={} error={}", id, StatusText(row.status()));
      continue;
    }
    auto run = std::make_unique<JobRun>(context_, *row);
    if (absl::Status restored = run->Restore(); !restored.ok()) {
      spdlog::error("job_not_restored job_id={} error={}", id, StatusText(restored));
      const absl::Status ended = EndStored(context_, *std::move(row), job_state::kFailed,
                                           "cannot be taken up: " + StatusText(restored));
      if (!ended.ok()) spdlog::error("job_stuck job_id={} error={}", id, StatusText(ended));
      continue;
    }
    JobRun& started = *run;
    active_[id] = std::move(run);
    started.Start([this, id] { RunHasEnded(id); });
    if (jobs_changed_) jobs_changed_();
  }
}

absl::StatusOr<JobRow> JobManager::Submit(const v1::SubmitJobRequest& request) {
  FETTLE_RETURN_IF_ERROR(CheckSubmit(request, context_.proposer_kinds, context_.fleet));
  const std::string request_digest = Sha256Hex(request.SerializeAsString());
  const auto find_repeat = [&]() -> absl::StatusOr<std::optional<JobRow>> {
    std::optional<JobRow> known;
    if (request.request_id().empty()) return known;
    FETTLE_RETURN_IF_ERROR(context_.store.Read([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(known, FindJobByRequest(db, request.request_id()));
      return absl::OkStatus();
    }));
    if (known.has_value() && known->request_digest != request_digest) {
      return absl::AlreadyExistsError(fmt::format(
          "request_id: {} was used for another request; choose a new one", request.request_id()));
    }
    return known;
  };
  FETTLE_ASSIGN_OR_RETURN(std::optional<JobRow> known, find_repeat());
  if (known.has_value()) return *std::move(known);

  FETTLE_ASSIGN_OR_RETURN(const std::shared_ptr<const Task> task,
                          ParseTaskBlob(request.task_blob()));
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return errors::ShuttingDown();
    if (queue_.size() + active_.size() >= static_cast<std::size_t>(limits::kMaxOpenJobs)) {
      return absl::ResourceExhaustedError(
          fmt::format("{} jobs are open, which is the limit; cancel some", limits::kMaxOpenJobs));
    }
  }
  TaskRow task_row;
  task_row.digest = task->digest();
  task_row.name = task->name();
  task_row.created_ns = context_.clock.NowNs();
  FETTLE_ASSIGN_OR_RETURN(task_row.blob, context_.store.blobs().Put(request.task_blob()));

  JobRow job;
  job.id = RandomId("j");
  job.request_id = request.request_id();
  job.request_digest = request_digest;
  job.task_digest = task->digest();
  job.task_name = task->name();
  job.target = request.target();
  job.proposer = request.proposer();
  job.options_json = request.options_json();
  job.seed = request.seed() != 0 ? request.seed() : RandomSeed();
  job.budget = BudgetFromProto(request.budget());
  job.space_size = std::to_string(SpaceSize(task->baseline().tunables));
  job.created_ns = task_row.created_ns;
  const absl::Status stored = context_.store.Write([&](Connection& db) -> absl::Status {
    FETTLE_RETURN_IF_ERROR(InsertTask(db, task_row));
    FETTLE_RETURN_IF_ERROR(InsertJob(db, job));
    FETTLE_RETURN_IF_ERROR(
        AppendEvent(db, job, StateEvent(job), job.created_ns, /*terminal=*/false));
    return UpdateJob(db, job);
  });
  if (absl::IsAlreadyExists(stored)) {  // The same request at the same moment.
    FETTLE_ASSIGN_OR_RETURN(known, find_repeat());
    if (known.has_value()) return *std::move(known);
  }
  FETTLE_RETURN_IF_ERROR(stored);
  spdlog::info("job_submitted job_id={} task={} target={} proposer={}", job.id, job.task_name,
               job.target, job.proposer);
  FETTLE_RETURN_IF_ERROR(Queue({job.id, MostlyWaits(job.proposer)}));
  return job;
}

absl::Status JobManager::Queue(Queued job) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return errors::ShuttingDown();
  queue_.push_back(std::move(job));
  Fill();
  return absl::OkStatus();
}

absl::StatusOr<JobRow> JobManager::Cancel(const std::string& job_id) {
  FETTLE_ASSIGN_OR_RETURN(JobRow job, ReadJob(context_.store, job_id));
  if (job.terminal()) return errors::WrongJobState(job_id, job.state, "cancel");
  FETTLE_RETURN_IF_ERROR(context_.store.Write(
      [&](Connection& db) { return SetCancelRequested(db, job_id, /*requested=*/true); }));
  std::unique_lock lock(mutex_);
  if (const auto found = active_.find(job_id); found != active_.end()) {
    found->second->Cancel();
    // Usually done at once; a proposer may take a moment to stop.
    reap_wake_.wait_for(lock, kCancelWait,
                        [&] { return stopping_ || active_.find(job_id) == active_.end(); });
    lock.unlock();
    return ReadJob(context_.store, job_id);
  }
  const bool waiting =
      std::erase_if(queue_, [&](const Queued& one) { return one.id == job_id; }) > 0;
  lock.unlock();
  FETTLE_ASSIGN_OR_RETURN(job, ReadJob(context_.store, job_id));
  if (!waiting || job.terminal()) return job;
  FETTLE_RETURN_IF_ERROR(
      EndStored(context_, std::move(job), job_state::kCancelled, "cancelled on request"));
  return ReadJob(context_.store, job_id);
}

absl::StatusOr<JobRow> JobManager::Resume(const std::string& job_id, const v1::Budget& budget) {
  FETTLE_RETURN_IF_ERROR(CheckBudget(budget, /*required=*/false));
  FETTLE_ASSIGN_OR_RETURN(JobRow job, ReadJob(context_.store, job_id));
  if (!job.terminal()) return errors::WrongJobState(job_id, job.state, "resume");
  const BudgetRow wanted = BudgetFromProto(budget);
  if (wanted.candidates > 0) job.budget.candidates = wanted.candidates;
  if (wanted.wall_ms > 0) job.budget.wall_ms = wanted.wall_ms;
  if (wanted.device_ms > 0) job.budget.device_ms = wanted.device_ms;
  if (wanted.tokens > 0) job.budget.tokens = wanted.tokens;
  if (wanted.usd > 0) job.budget.usd = wanted.usd;
  if (job.budget.candidates > 0 && job.spent.candidates >= job.budget.candidates) {
    return errors::BadField("budget.candidates",
                            fmt::format("{} of {} are spent; give a larger total",
                                        job.spent.candidates, job.budget.candidates));
  }
  if (job.budget.wall_ms > 0 && job.spent.wall_ms >= job.budget.wall_ms) {
    return errors::BadField("budget.wall_ms",
                            fmt::format("{} of {} ms are spent; give a larger total",
                                        job.spent.wall_ms, job.budget.wall_ms));
  }
  if (job.budget.device_ms > 0 && job.spent.device_ms >= job.budget.device_ms) {
    return errors::BadField("budget.device_ms",
                            fmt::format("{} of {} ms are spent; give a larger total",
                                        job.spent.device_ms, job.budget.device_ms));
  }
  job.state = job_state::kQueued;
  job.message.clear();
  job.finished_ns = 0;
  job.since_improvement = 0;
  if (absl::Status stored = context_.store.Write([&](Connection& db) -> absl::Status {
        FETTLE_ASSIGN_OR_RETURN(const std::optional<JobRow> now, FindJob(db, job_id));
        if (!now->terminal()) return errors::WrongJobState(job_id, now->state, "resume");
        FETTLE_RETURN_IF_ERROR(
            AppendEvent(db, job, StateEvent(job), context_.clock.NowNs(), /*terminal=*/false));
        return UpdateJob(db, job);
      });
      !stored.ok()) {
    return stored;
  }
  context_.events.Ring(job_id);
  FETTLE_RETURN_IF_ERROR(Queue({job_id, MostlyWaits(job.proposer)}));
  return job;
}

std::string JobManager::Waiting(const std::string& job_id) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = active_.find(job_id); found != active_.end()) {
    return found->second->waiting();
  }
  const auto place = std::find_if(queue_.begin(), queue_.end(),
                                  [&](const Queued& one) { return one.id == job_id; });
  if (place == queue_.end()) return "";
  return fmt::format("waits for {} jobs before it",
                     active_.size() + static_cast<std::size_t>(place - queue_.begin()));
}

std::vector<JobDemand> JobManager::Demands() const {
  const std::lock_guard lock(mutex_);
  std::vector<JobDemand> demands;
  for (const auto& [id, run] : active_) demands.push_back(run->demand());
  return demands;
}

std::int64_t JobManager::QueuePosition(const std::string& job_id) const {
  const std::lock_guard lock(mutex_);
  const auto place = std::find_if(queue_.begin(), queue_.end(),
                                  [&](const Queued& one) { return one.id == job_id; });
  return place == queue_.end() ? 0 : place - queue_.begin() + 1;
}

void JobManager::Poke(const std::string& job_id) {
  const std::lock_guard lock(mutex_);
  if (const auto found = active_.find(job_id); found != active_.end()) found->second->Poke();
}

std::shared_ptr<DeviceTime> JobManager::DeviceTimeOf(const std::string& job_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = active_.find(job_id);
  return found == active_.end() ? nullptr : found->second->device_time();
}

void JobManager::WorkersChanged() {
  const std::lock_guard lock(mutex_);
  for (auto& [id, run] : active_) run->Poke();
}

}  // namespace fettle
