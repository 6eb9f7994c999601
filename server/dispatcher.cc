// SPDX-License-Identifier: Apache-2.0
#include "server/dispatcher.h"

#include <algorithm>

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "server/dispatch_rules.h"
#include "server/job_measures.h"
#include "server/worker_hello.h"
#include "store/candidate_store.h"

namespace fettle {

using dispatch::HasToolchain;
using dispatch::IsAheadId;
using dispatch::Serves;

namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// Confirmations go first: the job's incumbent depends on them.
int Urgency(UnitKind kind) { return kind == UnitKind::kConfirm ? 0 : 1; }

// What a worker said of a device before; empty where it said nothing.
DeviceReportRow ReportOf(const WorkerView& view, const std::string& device_id) {
  for (const DeviceReport& report : view.reports) {
    if (report.row.device_id == device_id) return report.row;
  }
  return {};
}

constexpr std::size_t kMaxProven = 4096;
constexpr std::chrono::milliseconds kScanPause{5};  // By which deadlines may be late.

}  // namespace

Dispatcher::Dispatcher(Store& store, Clock& clock, DispatcherOptions options)
    : store_(store), clock_(clock), options_(options), thread_([this] { Loop(); }) {
  pthread_setname_np(thread_.native_handle(), "dispatcher");
}

Dispatcher::~Dispatcher() { Stop(); }

void Dispatcher::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (!thread_.joinable()) return;
  thread_.join();
  store_.Flush();  // What it was to tell refers to sessions and to owners of units.
}

void Dispatcher::Post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    inbox_.push_back(std::move(task));
  }
  wake_.notify_all();
}

void Dispatcher::ServerStops() {
  Post([this] { server_stops_ = true; });
}

void Dispatcher::Enqueue(UnitTicket ticket) {
  Post([this, shared = std::make_shared<UnitTicket>(std::move(ticket))] {
    auto unit = std::make_unique<Unit>();
    unit->ticket = std::move(*shared);
    unit->choosy_until = clock_.Steady() + limits::kOtherDevice;
    const UnitRow& row = unit->ticket.row;
    if (row.state == unit_state::kLeased) {
      unit->state = State::kUnclaimed;
      unit->until = clock_.Steady() + options_.reconnect_grace;
    } else {
      if (pending_[row.job_id].empty()) rotation_.push_back(row.job_id);
      pending_[row.job_id].push_back(row.id);
    }
    units_[row.id] = std::move(unit);
  });
}

void Dispatcher::Settle(const std::string& unit_id) {
  Post([this, unit_id] {
    const auto found = units_.find(unit_id);
    if (found == units_.end()) return;
    Acknowledge(found->second->holder, unit_id, found->second->ticket.row.attempt);
    Forget(unit_id);
  });
}

void Dispatcher::Reject(const std::string& unit_id, const std::string& reason) {
  Post([this, unit_id, reason] {
    const auto found = units_.find(unit_id);
    if (found == units_.end()) return;
    Acknowledge(found->second->holder, unit_id, found->second->ticket.row.attempt);
    GiveBack(*found->second, reason, /*counts=*/true);
  });
}

void Dispatcher::CancelUnit(const std::string& unit_id) {
  Post([this, unit_id] {
    const auto found = units_.find(unit_id);
    if (found == units_.end()) return;
    const Unit& unit = *found->second;
    const auto holder = workers_.find(unit.holder);
    const bool runs = unit.state == State::kLeased && holder != workers_.end();
    if (unit.ticket.charge && unit.state != State::kDelivered) {
      if (runs) {
        cancelled_[{unit_id, unit.ticket.row.attempt}] = {
            .charge = unit.ticket.charge,
            .row = unit.ticket.durable ? std::optional(unit.ticket.row) : std::nullopt,
            .most_ms = MostDeviceMs(unit),
            .holder = unit.holder,
            .until = clock_.Steady() + limits::kCancelGrace};
      } else {
        unit.ticket.charge(MostDeviceMs(unit), /*last=*/true);
      }
    }
    if (runs) {
      TellCancel(holder->second, unit_id, unit.ticket.row.attempt);
      --holder->second.view.held;
      views_stale_ = true;
    }
    Forget(unit_id);
  });
}

void Dispatcher::CancelJob(const std::string& job_id) {
  Post([this, job_id] {
    std::vector<std::string> ids;
    for (const auto& [id, unit] : units_) {
      if (unit->ticket.row.job_id == job_id) ids.push_back(id);
    }
    for (const std::string& id : ids) CancelUnit(id);
  });
}

void Dispatcher::SetWorkersChanged(std::function<void()> listener) {
  Post([this, listener = std::move(listener)] { workers_changed_ = listener; });
}

void Dispatcher::Connect(std::shared_ptr<WorkerLink> link, v1::Hello hello, std::string job_id) {
  Post([this, link = std::move(link), hello = std::move(hello), job_id = std::move(job_id)] {
    HandleConnect(link, hello, job_id);
  });
}

void Dispatcher::Message(WorkerLink* link, v1::WorkerMessage message) {
  Post([this, link, message = std::move(message)] { HandleMessage(link, message); });
}

void Dispatcher::Disconnect(WorkerLink* link, std::string reason) {
  Post([this, link, reason = std::move(reason)] { HandleDisconnect(link, reason); });
}

std::optional<DeviceChoice> Dispatcher::Choose(const std::string& target,
                                               const std::string& job_id) const {
  const std::lock_guard lock(mutex_);
  std::optional<DeviceChoice> best;
  bool best_emulated = false;
  for (const WorkerView& worker : views_) {
    if (worker.state == "draining" || !Serves(worker, job_id)) continue;
    for (const OfferedDevice& device : worker.devices) {
      if (target == "auto" ? device.emulated : device.target != target) continue;
      // A real device is better than an emulated one and any GPU than the CPU; among equals the
      // first one stays.
      const bool better = (best_emulated && !device.emulated) ||
                          (best.has_value() && best->target == "cpu" && device.target != "cpu");
      if (best.has_value() && !better) continue;
      best_emulated = device.emulated;
      const auto toolchain = toolchains_.find({device.target, device.model});
      best = DeviceChoice{device.target, device.model,
                          toolchain == toolchains_.end() ? "" : toolchain->second};
    }
  }
  return best;
}

DeviceCapacity Dispatcher::Capacity(const DeviceChoice& choice, const std::string& job_id) const {
  const std::lock_guard lock(mutex_);
  DeviceCapacity capacity;
  for (const WorkerView& worker : views_) {
    if (worker.state == "draining" || !Serves(worker, job_id) ||
        !HasToolchain(worker, choice.target, choice.toolchain)) {
      continue;
    }
    int devices = 0;
    for (const OfferedDevice& device : worker.devices) {
      if (device.target == choice.target &&
          (choice.device_model.empty() || device.model == choice.device_model)) {
        ++devices;
      }
    }
    if (worker.compiles_only() && worker.toolchains.contains(choice.target)) {
      capacity.ahead += worker.slots;
    }
    capacity.devices += devices;
    if (devices > 0) capacity.slots += worker.slots;
  }
  return capacity;
}

std::vector<WorkerView> Dispatcher::Workers() const {
  const std::lock_guard lock(mutex_);
  return views_;
}

bool Dispatcher::ChecksOnCpu() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(views_.begin(), views_.end(), [](const WorkerView& worker) {
    const bool has_cpu =
        std::any_of(worker.devices.begin(), worker.devices.end(),
                    [](const OfferedDevice& device) { return device.target == "cpu"; });
    return worker.state != "draining" && Serves(worker, "") &&
           (has_cpu || (worker.compiles_only() && worker.toolchains.contains("cpu")));
  });
}

DispatcherCounts Dispatcher::Counts() const {
  const std::lock_guard lock(mutex_);
  return published_counts_;
}

void Dispatcher::CountUnits() {
  counts_.pending = 0;
  for (const auto& [job, queue] : pending_) counts_.pending += std::ssize(queue);
  counts_.leased = std::ssize(units_) - counts_.pending - delivered_;
}

void Dispatcher::Loop() {
  SteadyTime scanned, wake = clock_.Steady();
  while (true) {
    std::deque<std::function<void()>> tasks;
    {
      std::unique_lock lock(mutex_);
      const bool owed = !changes_.empty() || !after_commit_.empty();
      wake_.wait_until(lock, owed ? clock_.Steady() : wake,
                       [this] { return stopping_ || !inbox_.empty(); });
      if (stopping_) return;
      tasks.swap(inbox_);
    }
    for (const auto& task : tasks) task();
    const SteadyTime now = clock_.Steady();
    // What looks at every unit is not done for each message.
    const bool scans = tasks.empty() || now >= scanned + kScanPause;
    if (scans) Expire(now);
    // While a write is owed (full disk), nothing new is handed out. What was just given back is
    // stored first and then handed out in the same turn: nothing else would wake this thread.
    bool stored = Commit();
    if (stored && !server_stops_) {
      AssignAll();
      stored = Commit();
    }
    if (!stored) {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, limits::kRetryPause, [this] { return stopping_; });
    }
    if (scans) {
      scanned = now;
      wake = NextDeadline(now);
    } else {
      wake = std::min(wake, scanned + kScanPause);
    }
    CountUnits();
    Publish();
  }
}

SteadyTime Dispatcher::NextDeadline(SteadyTime now) const {
  SteadyTime next = now + std::chrono::seconds(60);
  for (const auto& [id, unit] : units_) {
    if (unit->state == State::kLeased || unit->state == State::kUnclaimed) {
      next = std::min(next, unit->until);
    }
    if (unit->ahead == Ahead::kUnderWay) next = std::min(next, unit->ahead_until);
    const bool choosy = unit->state == State::kPending && !unit->ticket.other_than.empty();
    if (choosy && unit->choosy_until > now) next = std::min(next, unit->choosy_until);
  }
  for (const auto& [link, worker] : workers_) {
    next = std::min(next, worker.last_seen + options_.heartbeat_lost);
  }
  for (const auto& [attempt, cancelled] : cancelled_) next = std::min(next, cancelled.until);
  return next;
}

void Dispatcher::HandleConnect(std::shared_ptr<WorkerLink> link, const v1::Hello& hello,
                               const std::string& job_id) {
  absl::StatusOr<WorkerHello> parsed = ParseHello(hello);
  if (!parsed.ok()) {
    link->Close(StatusText(parsed.status()));
    return;
  }
  if (workers_.size() >= static_cast<std::size_t>(limits::kMaxWorkers)) {
    link->Close(fmt::format("{} workers are connected, which is the limit", limits::kMaxWorkers));
    return;
  }
  // The same process on a new connection: the old one is dead, whatever it looks like.
  for (auto& [old_link, old] : workers_) {
    if (old.view.id != hello.worker_id()) continue;
    LoseCompiler(old_link);
    for (auto& [id, unit] : units_) {
      if (unit->holder == old_link && unit->state == State::kLeased) {
        unit->state = State::kUnclaimed;
        unit->until = clock_.Steady() + options_.reconnect_grace;
      }
    }
    old.link->Close("replaced by a new connection of the same worker");
    workers_.erase(old_link);
    break;
  }
  WorkerLink* key = link.get();
  Worker& worker = workers_[key];
  worker.link = std::move(link);
  worker.view = parsed->view;
  worker.view.job_id = job_id;
  worker.view.connected_ns = clock_.NowNs();
  worker.view.toolchains = parsed->toolchains;
  worker.last_seen = clock_.Steady();
  v1::ServerMessage welcome;
  welcome.mutable_welcome()->set_heartbeat_ms(options_.heartbeat.count());
  Tell(worker, std::move(welcome));
  for (const auto& [unit_id, attempt] : parsed->held) {
    if (IsAheadId(unit_id)) {
      if (!ResumeAhead(worker, unit_id, attempt)) TellCancel(worker, unit_id, attempt);
      continue;
    }
    const auto found = units_.find(unit_id);
    if (found != units_.end() && found->second->state == State::kUnclaimed &&
        found->second->ticket.row.attempt == attempt &&
        found->second->ticket.row.worker_id == hello.worker_id()) {
      Unit& unit = *found->second;
      unit.state = State::kLeased;
      unit.holder = key;
      unit.until = clock_.Steady() + std::chrono::milliseconds(unit.ticket.unit.deadline_ms) +
                   options_.lease_slack;
      ++worker.view.held;
      continue;
    }
    TellCancel(worker, unit_id, attempt);
  }
  spdlog::info("worker_connected worker={} host={} slots={}", worker.view.id, worker.view.host,
               worker.view.slots);
  members_stale_ = true;
}

void Dispatcher::HandleMessage(WorkerLink* link, const v1::WorkerMessage& message) {
  const auto found = workers_.find(link);
  if (found == workers_.end()) return;
  found->second.last_seen = clock_.Steady();
  switch (message.payload_case()) {
    case v1::WorkerMessage::kUnitDone:
      HandleDone(link, message.unit_done());
      break;
    case v1::WorkerMessage::kUnitReturned:
      HandleReturned(link, message.unit_returned());
      break;
    case v1::WorkerMessage::kDraining:
      found->second.draining = true;
      members_stale_ = true;
      break;
    case v1::WorkerMessage::kHeartbeat:
      HandleHeartbeat(found->second, message.heartbeat());
      break;
    default:
      break;
  }
}

void Dispatcher::HandleHeartbeat(Worker& worker, const v1::Heartbeat& heartbeat) {
  if (heartbeat.state_json() == worker.state_json) return;
  worker.state_json = heartbeat.state_json();
  absl::StatusOr<std::vector<DeviceReport>> reports = ParseDeviceReports(worker.state_json);
  if (!reports.ok()) {
    spdlog::warn("device_reports_malformed worker={} error={}", worker.view.id,
                 StatusText(reports.status()));
    return;
  }
  std::vector<DeviceReportRow> changed;
  for (DeviceReport& report : *reports) {
    const DeviceReportRow before = ReportOf(worker.view, report.row.device_id);
    report.row.host = worker.view.host;
    report.row.worker_id = worker.view.id;
    report.row.reported_ns = before.reported_ns;
    if (report.row == before) continue;
    report.row.reported_ns = clock_.NowNs();
    changed.push_back(report.row);
  }
  worker.view.reports = *std::move(reports);
  worker.reports_stale = views_stale_ = true;
  if (changed.empty()) return;
  // Nothing waits for these rows: where they cannot be stored, the next change tries again.
  const absl::Status stored = store_.WriteAhead([&changed](Connection& db) -> absl::Status {
    for (const DeviceReportRow& row : changed) {
      FETTLE_RETURN_IF_ERROR(PutDeviceReport(db, row));
    }
    return absl::OkStatus();
  });
  if (!stored.ok()) spdlog::warn("device_reports_not_stored error={}", StatusText(stored));
}

void Dispatcher::HandleDone(WorkerLink* link, const v1::UnitDone& done) {
  if (IsAheadId(done.unit_id())) {
    return EndAhead(link, done.unit_id(), done.attempt(), &done.result_json());
  }
  if (const UnitAttempt attempt(done.unit_id(), done.attempt()); cancelled_.contains(attempt)) {
    ChargeCancelled(attempt, DeviceMsOf(done.result_json()));
  }
  const auto found = units_.find(done.unit_id());
  // Unknown: its result is stored already, or its job has ended. Either way the worker may forget
  // it.
  if (found == units_.end()) {
    Acknowledge(link, done.unit_id(), done.attempt());
    return;
  }
  Unit& unit = *found->second;
  const bool current = unit.ticket.row.attempt == done.attempt() &&
                       (unit.state == State::kLeased || unit.state == State::kUnclaimed);
  if (!current) {
    // A repeat of a result that is being stored is acknowledged with it; one of an attempt that was
    // given back is dropped, since another attempt is under way.
    if (unit.state != State::kDelivered || unit.ticket.row.attempt != done.attempt()) {
      Acknowledge(link, done.unit_id(), done.attempt());
    } else {
      unit.holder = link;
    }
    return;
  }
  if (unit.state == State::kLeased) {
    if (const auto holder = workers_.find(unit.holder); holder != workers_.end()) {
      --holder->second.view.held;
      views_stale_ = true;
    }
  }
  if (const auto worker = workers_.find(link); worker != workers_.end()) {
    if (proven_.size() >= kMaxProven) proven_.clear();
    proven_.insert(worker->second.view.id);
  }
  unit.state = State::kDelivered;
  ++delivered_;
  unit.holder = link;
  ++counts_.results;
  UnitEnd outcome;
  outcome.unit = unit.ticket.row;
  outcome.has_result = true;
  outcome.result_json = done.result_json();
  std::string unfit;  // All that reads it later may recurse.
  if (outcome.result_json.size() > limits::kMaxResultJsonBytes) {
    unfit = fmt::format("a result of {} bytes", outcome.result_json.size());
  } else if (JsonNesting(outcome.result_json) > kMaxJsonNesting) {
    unfit = fmt::format("a result nested more than {} deep", kMaxJsonNesting);
  }
  if (!unfit.empty()) {
    Acknowledge(link, done.unit_id(), done.attempt());
    GiveBack(unit, unfit, /*counts=*/true);
    return;
  }
  unit.ticket.done(std::move(outcome));
}

void Dispatcher::HandleReturned(WorkerLink* link, const v1::UnitReturned& returned) {
  if (IsAheadId(returned.unit_id())) {
    return EndAhead(link, returned.unit_id(), returned.attempt(), nullptr);
  }
  Acknowledge(link, returned.unit_id(), returned.attempt());
  const std::optional<std::int64_t> device_ms =
      returned.has_device_ms() ? std::optional(returned.device_ms()) : std::nullopt;
  ChargeCancelled({returned.unit_id(), returned.attempt()}, device_ms);
  const auto found = units_.find(returned.unit_id());
  if (found == units_.end() || found->second->ticket.row.attempt != returned.attempt() ||
      found->second->state != State::kLeased) {
    return;
  }
  Unit& unit = *found->second;
  const Worker& worker = workers_.at(link);
  // A worker that drains hands back what it holds; that says nothing about the unit.
  const bool counts = !worker.draining;
  if (!returned.retryable()) unit.ticket.failures = limits::kMaxUnitAttempts;
  GiveBack(
      unit,
      fmt::format("worker {} gave it back: {}", worker.view.id, CutText(returned.reason(), 500)),
      counts || !returned.retryable(), device_ms);
}

void Dispatcher::HandleDisconnect(WorkerLink* link, const std::string& reason) {
  const auto found = workers_.find(link);
  if (found == workers_.end()) return;
  const std::string id = found->second.view.id;
  spdlog::info("worker_disconnected worker={} reason={}", id, reason);
  const bool died = !found->second.draining && !server_stops_;
  const std::shared_ptr<WorkerLink> keep = found->second.link;
  workers_.erase(found);
  std::vector<UnitAttempt> silent;
  for (const auto& [attempt, cancelled] : cancelled_) {
    if (cancelled.holder == link) silent.push_back(attempt);
  }
  for (const UnitAttempt& attempt : silent) ChargeCancelled(attempt, std::nullopt);
  LoseCompiler(link);
  for (auto& [unit_id, unit] : units_) {
    if (unit->holder != link) continue;
    if (unit->state == State::kLeased) {
      // One death proves nothing: the machine, the scheduler or another unit may be the cause.
      const bool repeated = died && unit->ticket.deaths > 0 && unit->alone;
      if (died) ++unit->ticket.deaths;
      GiveBack(
          *unit,
          fmt::format("{}worker {} is gone: {}", died && !repeated ? kWorkerGone : "", id, reason),
          /*counts=*/repeated);
    } else {
      unit->holder = nullptr;
    }
  }
  keep->Close(reason);
  members_stale_ = true;
}

std::int64_t Dispatcher::MostDeviceMs(const Unit& unit) const {
  const std::int64_t cap = unit.ticket.unit.device_cap_ms;
  if (unit.state == State::kPending || cap == 0) return 0;
  if (unit.leased == SteadyTime()) return cap;  // Leased before this start.
  const auto since =
      std::chrono::duration_cast<std::chrono::milliseconds>(clock_.Steady() - unit.leased);
  return std::clamp<std::int64_t>(since.count() + 1, 0, cap);
}

void Dispatcher::ChargeCancelled(const UnitAttempt& attempt,
                                 std::optional<std::int64_t> device_ms) {
  const auto found = cancelled_.find(attempt);
  if (found == cancelled_.end()) return;
  Cancelled cancelled = std::move(found->second);
  cancelled_.erase(found);
  const std::int64_t used = std::max<std::int64_t>(0, device_ms.value_or(cancelled.most_ms));
  if (cancelled.row.has_value()) {
    cancelled.row->state = unit_state::kCancelled;
    cancelled.row->ended_ns = clock_.NowNs();
    cancelled.row->device_ms = used;
    changes_.push_back({*std::move(cancelled.row), /*insert=*/false});
  }
  cancelled.charge(used, /*last=*/true);
}

void Dispatcher::GiveBack(Unit& unit, const std::string& reason, bool counts,
                          std::optional<std::int64_t> device_ms) {
  if (const auto holder = workers_.find(unit.holder);
      holder != workers_.end() && unit.state == State::kLeased) {
    --holder->second.view.held;
    views_stale_ = true;
  }
  UnitTicket& ticket = unit.ticket;
  ++counts_.returned;
  if (counts) ++ticket.failures;
  const std::int64_t used = std::max<std::int64_t>(0, device_ms.value_or(MostDeviceMs(unit)));
  // What it took is no longer there for the next attempt.
  const bool capped = ticket.unit.device_cap_ms > 0;
  if (capped) ticket.unit.device_cap_ms -= std::min(used, ticket.unit.device_cap_ms);
  const bool spent = capped && ticket.unit.device_cap_ms == 0;
  spdlog::info("unit_returned job_id={} unit={} attempt={} failures={} reason={}",
               ticket.row.job_id, ticket.row.id, ticket.row.attempt, ticket.failures, reason);
  const bool poison = spent || ticket.failures >= limits::kMaxUnitAttempts ||
                      (ticket.deaths > 0 && ticket.row.attempt >= limits::kMaxAttemptsInAll);
  ticket.row.state = unit_state::kReturned;
  ticket.row.reason = counts ? reason : kNotCounted + reason;
  ticket.row.ended_ns = clock_.NowNs();
  ticket.row.device_ms = used;
  if (ticket.durable) changes_.push_back({ticket.row, /*insert=*/false});
  unit.holder = nullptr;
  unit.alone = false;
  if (unit.state == State::kDelivered) --delivered_;
  if (ticket.charge) ticket.charge(used, /*last=*/poison);
  if (poison) {
    UnitEnd outcome;
    outcome.unit = ticket.row;
    outcome.reason = spent ? reason + "; its device time is used up" : reason;
    unit.state = State::kDelivered;
    ++delivered_;
    after_commit_.push_back(
        [done = ticket.done, outcome = std::move(outcome)]() mutable { done(std::move(outcome)); });
    return;
  }
  ++ticket.row.attempt;
  ticket.row.state = unit_state::kPending;
  ticket.row.worker_id.clear();
  ticket.row.reason.clear();
  ticket.row.leased_ns = ticket.row.ended_ns = ticket.row.device_ms = 0;
  ticket.row.device_cap_ms = ticket.unit.device_cap_ms;
  ticket.row.created_ns = clock_.NowNs();
  if (ticket.durable) changes_.push_back({ticket.row, /*insert=*/true});
  unit.state = State::kPending;
  std::vector<std::string>& queue = pending_[ticket.row.job_id];
  if (queue.empty()) rotation_.push_front(ticket.row.job_id);
  queue.insert(queue.begin(), ticket.row.id);
}

void Dispatcher::Tell(const Worker& worker, v1::ServerMessage message) {
  store_.WhenDurable([link = worker.link, message = std::move(message)]() mutable {
    link->Send(std::move(message));
  });
}

void Dispatcher::TellCancel(const Worker& worker, const std::string& unit_id, int attempt) {
  v1::ServerMessage message;
  message.mutable_cancel()->set_unit_id(unit_id);
  message.mutable_cancel()->set_attempt(attempt);
  Tell(worker, std::move(message));
}

void Dispatcher::Acknowledge(WorkerLink* link, const std::string& unit_id, int attempt) {
  const auto worker = workers_.find(link);
  if (worker == workers_.end()) return;
  v1::ServerMessage message;
  message.mutable_ack()->set_unit_id(unit_id);
  message.mutable_ack()->set_attempt(attempt);
  Tell(worker->second, std::move(message));
}

void Dispatcher::Expire(SteadyTime now) {
  std::vector<WorkerLink*> silent;
  for (const auto& [link, worker] : workers_) {
    if (now >= worker.last_seen + options_.heartbeat_lost) silent.push_back(link);
  }
  for (WorkerLink* link : silent) HandleDisconnect(link, "no heartbeat");
  std::vector<UnitAttempt> unanswered;
  for (const auto& [attempt, cancelled] : cancelled_) {
    if (now >= cancelled.until) unanswered.push_back(attempt);
  }
  for (const UnitAttempt& attempt : unanswered) ChargeCancelled(attempt, std::nullopt);
  for (auto& [id, unit] : units_) {
    if (unit->ahead == Ahead::kUnderWay && now >= unit->ahead_until) StopAhead(*unit);
    if (now < unit->until) continue;
    if (unit->state == State::kUnclaimed) {
      GiveBack(*unit, "the server restarted and its worker did not come back", /*counts=*/false);
    } else if (unit->state == State::kLeased) {
      if (const auto holder = workers_.find(unit->holder); holder != workers_.end()) {
        TellCancel(holder->second, id, unit->ticket.row.attempt);
      }
      GiveBack(*unit, fmt::format("no result within {} ms", unit->ticket.unit.deadline_ms),
               /*counts=*/true);
    }
  }
}

bool Dispatcher::Runs(const Worker& worker, const UnitTicket& ticket) {
  const WorkUnit& unit = ticket.unit;
  // What needs no device; check mode is correctness on the cpu.
  const bool anywhere =
      unit.kind == UnitKind::kCompile || (unit.check_mode && unit.target == "cpu");
  if (anywhere && worker.view.compiles_only()) {
    return worker.view.toolchains.contains(unit.target) &&
           HasToolchain(worker.view, unit.target, ticket.toolchain);
  }
  if (!HasToolchain(worker.view, unit.target, ticket.toolchain)) return false;
  for (const OfferedDevice& device : worker.view.devices) {
    if (device.target == unit.target &&
        (unit.device_model.empty() || device.model == unit.device_model)) {
      return true;
    }
  }
  return false;
}

bool Dispatcher::WaitsForAnother(const Unit& unit, const Worker& worker) const {
  if (unit.ticket.other_than != worker.view.id) return false;
  bool others = false;
  for (const auto& [link, other] : workers_) {
    if (&other == &worker || other.draining || !Serves(other.view, unit.ticket.row.job_id) ||
        !Runs(other, unit.ticket)) {
      continue;
    }
    if (other.view.held < other.view.slots && other.reserved.empty()) return true;
    others = true;
  }
  return others && clock_.Steady() < unit.choosy_until;
}

void Dispatcher::Reserve() {
  for (auto& [link, worker] : workers_) {
    if (worker.reserved.empty()) continue;
    const auto unit = units_.find(worker.reserved);
    const bool stands = unit != units_.end() &&
                        (unit->second->state == State::kPending ||
                         (unit->second->state == State::kLeased && unit->second->holder == link));
    if (!stands || worker.draining) worker.reserved.clear();
  }
  for (const auto& [job, queue] : pending_) {
    for (const std::string& id : queue) {
      const Unit& unit = *units_.at(id);
      if (unit.ticket.deaths == 0) continue;
      // Proven workers first, then those that are free soonest.
      Worker* best = nullptr;
      bool has_one = false;
      const auto rank = [this](const Worker& worker) {
        return std::pair(!proven_.contains(worker.view.id), worker.view.held);
      };
      for (auto& [link, worker] : workers_) {
        has_one |= worker.reserved == id;
        if (worker.draining || !worker.reserved.empty() || !Serves(worker.view, job) ||
            !Runs(worker, unit.ticket)) {
          continue;
        }
        if (best == nullptr || rank(worker) < rank(*best)) best = &worker;
      }
      if (!has_one && best != nullptr) best->reserved = id;
    }
  }
}

Dispatcher::Round Dispatcher::BeginRound() const {
  Round round;
  for (const auto& [link, worker] : workers_) {
    if (worker.draining) continue;
    if (worker.view.compiles_only()) {
      round.compilers.push_back(&worker);
    } else {
      ++round.sharing;
    }
  }
  return round;
}

int Dispatcher::Room(const Worker& worker, const Round& round) const {
  const std::size_t least = 2 * worker.view.devices.size();
  const bool leaves_rest = std::any_of(
      round.compilers.begin(), round.compilers.end(),
      [&](const Worker* other) { return dispatch::CompilesFor(other->view, worker.view); });
  if (leaves_rest) return std::min(worker.view.slots, static_cast<int>(least));
  const std::size_t share = units_.size() / std::max<std::size_t>(round.sharing, 1) + 1;
  return std::min(worker.view.slots, static_cast<int>(std::max(share, least)));
}

void Dispatcher::AssignAll() {
  Reserve();
  const Round round = BeginRound();
  bool any = true;
  while (any && !rotation_.empty()) {
    any = false;
    // One unit per worker and round, so that a wide worker does not starve the others.
    for (auto& [link, worker] : workers_) {
      if (!worker.draining && worker.view.held < Room(worker, round)) any |= AssignOne(worker);
    }
  }
  CompileAhead();
}

bool Dispatcher::AssignOne(Worker& worker) {
  // What is to run alone waits until the worker is empty, and nothing else comes meanwhile.
  const std::string& reserved = worker.reserved;
  if (!reserved.empty() && worker.view.held > 0) return false;
  for (std::size_t turn = 0; turn < rotation_.size(); ++turn) {
    const std::string job = rotation_[turn];
    if (!Serves(worker.view, job)) continue;
    std::vector<std::string>& queue = pending_[job];
    auto chosen = queue.end();
    for (auto it = queue.begin(); it != queue.end(); ++it) {
      const Unit& unit = *units_.at(*it);
      if (reserved.empty() ? unit.ticket.deaths > 0 : *it != reserved) continue;
      if (!Runs(worker, unit.ticket) || WaitsForAnother(unit, worker)) continue;
      if (unit.ahead == Ahead::kUnderWay) continue;
      if (!worker.view.compiles_only() && unit.ticket.unit.kind == UnitKind::kCompile &&
          CompilerIsFree(unit.ticket)) {
        continue;
      }
      const auto rank = [](const Unit& one) {
        return std::pair(Urgency(one.ticket.unit.kind), one.ahead != Ahead::kOver);
      };
      if (chosen == queue.end() || rank(unit) < rank(*units_.at(*chosen))) chosen = it;
    }
    if (chosen == queue.end()) continue;
    const std::string id = *chosen;
    queue.erase(chosen);
    rotation_.erase(rotation_.begin() + static_cast<std::ptrdiff_t>(turn));
    if (queue.empty()) {
      pending_.erase(job);
    } else {
      rotation_.push_back(job);
    }
    Unit& unit = *units_.at(id);
    unit.alone = !reserved.empty() && proven_.contains(worker.view.id);
    Lease(unit, worker);
    return true;
  }
  return false;
}

void Dispatcher::Lease(Unit& unit, Worker& worker) {
  UnitTicket& ticket = unit.ticket;
  ticket.row.state = unit_state::kLeased;
  ticket.row.worker_id = worker.view.id;
  ticket.row.leased_ns = clock_.NowNs();
  unit.state = State::kLeased;
  unit.holder = worker.link.get();
  unit.leased = clock_.Steady();
  unit.until =
      clock_.Steady() + std::chrono::milliseconds(ticket.unit.deadline_ms) + options_.lease_slack;
  ++worker.view.held;
  ++counts_.leases;
  views_stale_ = true;
  if (ticket.durable) changes_.push_back({ticket.row, /*insert=*/false});
  ticket.unit.id = ticket.row.id;
  ticket.unit.attempt = ticket.row.attempt;
  v1::ServerMessage message;
  message.mutable_lease()->set_unit_json(ToJson(ticket.unit).dump(-1, ' ', false, kReplaceInvalid));
  message.mutable_lease()->set_deadline_ms(ticket.unit.deadline_ms);
  after_commit_.push_back([link = worker.link, message = std::move(message)]() mutable {
    link->Send(std::move(message));
  });
}

bool Dispatcher::Commit() {
  if (!changes_.empty()) {
    const absl::Status stored = store_.WriteAhead([&](Connection& db) -> absl::Status {
      for (const RowChange& change : changes_) {
        FETTLE_RETURN_IF_ERROR(change.insert ? InsertUnit(db, change.row)
                                             : UpdateUnit(db, change.row));
      }
      return absl::OkStatus();
    });
    if (!stored.ok()) {
      if (not_stored_ != stored.code()) {
        spdlog::warn("leases_not_stored retry_ms={} error={}", limits::kRetryPause.count(),
                     StatusText(stored));
      }
      not_stored_ = stored.code();
      return false;
    }
    if (not_stored_ != absl::StatusCode::kOk) spdlog::info("leases_stored_again");
    not_stored_ = absl::StatusCode::kOk;
    changes_.clear();
  }
  std::vector<std::function<void()>> actions;
  actions.swap(after_commit_);
  for (auto& action : actions) store_.WhenDurable(std::move(action));
  return true;
}

void Dispatcher::Forget(const std::string& unit_id) {
  const auto found = units_.find(unit_id);
  if (found == units_.end()) return;
  StopAhead(*found->second);
  const std::string job = found->second->ticket.row.job_id;
  if (const auto queue = pending_.find(job); queue != pending_.end()) {
    std::erase(queue->second, unit_id);
    if (queue->second.empty()) {
      pending_.erase(queue);
      std::erase(rotation_, job);
    }
  }
  if (found->second->state == State::kDelivered) --delivered_;
  units_.erase(found);
}

void Dispatcher::Publish() {
  const bool members = std::exchange(members_stale_, false);
  const bool held = std::exchange(views_stale_, false);
  std::vector<WorkerView> views;
  std::map<std::pair<std::string, std::string>, std::string> toolchains;
  for (auto& [link, worker] : workers_) {
    worker.view.state = worker.draining ? "draining" : worker.view.held > 0 ? "busy" : "idle";
    if (!members) continue;
    worker.reports_stale = false;
    views.push_back(worker.view);
    for (const OfferedDevice& device : worker.view.devices) {
      const auto found = worker.view.toolchains.find(device.target);
      toolchains[{device.target, device.model}] =
          found == worker.view.toolchains.end() ? "" : found->second;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    published_counts_ = counts_;
    if (members) {
      views_ = std::move(views);
      toolchains_ = std::move(toolchains);
    } else if (held) {
      // The same workers in the same order: the texts of each need no copy.
      auto view = views_.begin();
      for (auto& [link, worker] : workers_) {
        view->state = worker.view.state;
        view->held = worker.view.held;
        if (std::exchange(worker.reports_stale, false)) view->reports = worker.view.reports;
        ++view;
      }
    }
  }
  if (members && workers_changed_) workers_changed_();
}

}  // namespace fettle
