// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/clock.h"
#include "core/work_unit.h"
#include "fettle/v1/worker.pb.h"
#include "server/limits.h"
#include "server/worker_report.h"
#include "store/records.h"
#include "store/store.h"

namespace fettle {

// Begins the reason of an attempt that says nothing about its unit (a restart, a draining worker).
inline constexpr char kNotCounted[] = "not counted: ";
// Begins the rest of such a reason where the worker died with it.
inline constexpr char kWorkerGone[] = "worker gone: ";

// The way back to one connected worker. Thread-safe; never blocks.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  virtual void Send(v1::ServerMessage message) = 0;
  // Ends the connection.
  virtual void Close(std::string reason) = 0;
};

// A device that a connected worker offers.
struct OfferedDevice {
  std::string id, model, target;
  bool emulated = false;
};

struct WorkerView {
  std::string job_id;                    // The one job that it serves; empty: any.
  std::string id, host, version, state;  // state: idle, busy, draining, lost.
  std::string devices_json, compilers_json;
  std::vector<OfferedDevice> devices;
  std::map<std::string, std::string> toolchains;  // By target.
  std::vector<DeviceReport> reports;              // As its last heartbeat said.
  std::int64_t connected_ns = 0;
  int slots = 0, held = 0;

  // Without a device: it compiles ahead for workers that have one.
  bool compiles_only() const { return devices.empty(); }
};

// What a job settles on before it starts: figures of different models are never compared.
struct DeviceChoice {
  std::string target, device_model, toolchain;
};

// Of one device model, over workers.
struct DeviceCapacity {
  int slots = 0;  // Units that the workers can hold.
  int devices = 0;
  int ahead = 0;  // Units that others can compile meanwhile.
};

// How a unit ended, for its owner.
struct UnitEnd {
  UnitRow unit;             // The attempt that ended.
  bool has_result = false;  // False: poison, or cancelled; see `reason`.
  std::string result_json;  // UnitResult, not yet checked.
  std::string reason;
};

struct UnitTicket {
  UnitRow row;             // Already stored, when `durable`.
  WorkUnit unit;           // Id and attempt are taken from `row`.
  bool durable = true;     // False: belongs to no job and leaves no rows.
  int failures = 0;        // Attempts that failed before.
  int deaths = 0;          // Workers that died with it.
  std::string toolchain;   // Nonempty: only a worker with this one may run it.
  std::string other_than;  // Rather not this worker.
  // Called once, on the dispatcher's thread or the store's; must not block. With a result, the
  // owner then calls Settle (it is stored) or Reject (it is unusable).
  std::function<void(UnitEnd)> done;
  // May be empty. Called on the dispatcher's thread for every attempt that ended without a result,
  // cancelled ones included, with the device time that it took: as its worker said, else at most
  // (unit.device_cap_ms, or the time since its lease). `last`: no other attempt follows.
  std::function<void(std::int64_t device_ms, bool last)> charge;
};

// Units now, and what became of leases since the start.
struct DispatcherCounts {
  std::int64_t pending = 0, leased = 0;
  std::int64_t leases = 0;          // Handed out.
  std::int64_t results = 0;         // Ended with a result.
  std::int64_t returned = 0;        // Ended without: given back, lost or too late.
  std::int64_t compiled_ahead = 0;  // Evaluations that another worker had compiled before.
};

struct DispatcherOptions {
  std::chrono::milliseconds heartbeat = limits::kHeartbeat;
  std::chrono::milliseconds heartbeat_lost = limits::kHeartbeatLost;
  std::chrono::milliseconds lease_slack = limits::kLeaseSlack;
  // How long units leased before a restart wait for their worker to come back.
  std::chrono::milliseconds reconnect_grace{2'000};
};

// Hands units to workers and takes them back. A lease is a durable row per (unit, attempt), written
// before the worker hears of it; a closed connection, silence or a passed deadline gives it back,
// and after kMaxUnitAttempts failures the unit is poison. That a worker died says nothing about
// what it held: such a unit runs alone the next time, on a worker that has delivered results
// before, and only if that one dies too it is a failure. Jobs take turns.
//
// Workers without a device take units of kind compile, and compile evaluations that wait for a
// device. The latter is no attempt of the unit and leaves no row: its loss costs a compile.
//
// All state belongs to one thread; every call only posts to it. Thread-safe.
class Dispatcher {
 public:
  // Both must outlive this object.
  Dispatcher(Store& store, Clock& clock, DispatcherOptions options);
  ~Dispatcher();

  // From now on nothing is handed out, and workers whose sessions end have failed nothing.
  void ServerStops();

  // --- For jobs.
  void Enqueue(UnitTicket ticket);
  // The result of the unit is stored (or of no interest): acknowledges and forgets it.
  void Settle(const std::string& unit_id);
  // The result cannot be used: counts as a failed attempt.
  void Reject(const std::string& unit_id, const std::string& reason);
  // Forgets the units of a job, telling workers to stop. Their rows are the caller's business.
  void CancelJob(const std::string& job_id);
  void CancelUnit(const std::string& unit_id);
  // Called on the dispatcher's thread whenever workers come or go; must not block.
  void SetWorkersChanged(std::function<void()> listener);

  // --- For worker sessions. `link` identifies the session.
  // `job_id`: the worker serves this job alone; empty: any.
  void Connect(std::shared_ptr<WorkerLink> link, v1::Hello hello, std::string job_id);
  void Message(WorkerLink* link, v1::WorkerMessage message);
  void Disconnect(WorkerLink* link, std::string reason);

  // --- Queries.
  // The best device for `target` ("auto": any, GPUs first) among the workers that serve the job
  // (empty: any job). Unset: none offers one.
  std::optional<DeviceChoice> Choose(const std::string& target, const std::string& job_id) const;
  // What connected workers offer of that device and toolchain (where they are named) for the job.
  DeviceCapacity Capacity(const DeviceChoice& device, const std::string& job_id) const;
  // Whether a worker that serves any job can run the cpu's check mode.
  bool ChecksOnCpu() const;
  std::vector<WorkerView> Workers() const;
  DispatcherCounts Counts() const;

  // Ends the thread. Leases stay as they are, for the next start. Idempotent.
  void Stop();

 private:
  enum class State { kPending, kLeased, kUnclaimed, kDelivered };
  // Of compiling a unit before it is leased.
  enum class Ahead { kNot, kUnderWay, kOver };
  struct Unit {
    UnitTicket ticket;
    State state = State::kPending;
    WorkerLink* holder = nullptr;
    std::chrono::steady_clock::time_point until{};   // kLeased: deadline. kUnclaimed: grace ends.
    std::chrono::steady_clock::time_point leased{};  // kLeased, since this start.
    std::chrono::steady_clock::time_point choosy_until{};  // Then it takes any worker.
    bool alone = false;  // kLeased: nothing else runs there, and the worker is a proven one.
    Ahead ahead = Ahead::kNot;
    WorkerLink* compiler = nullptr;                       // kUnderWay: who compiles it.
    std::chrono::steady_clock::time_point ahead_until{};  // kUnderWay: then it goes without.
    int compilers_lost = 0;  // Workers that were gone before they had compiled it.
  };
  struct Worker {
    std::shared_ptr<WorkerLink> link;
    WorkerView view;
    std::string state_json;  // Of the last heartbeat.
    std::string reserved;    // The unit that it is kept free for, or runs alone; empty: none.
    bool draining = false;
    bool reports_stale = false;  // Those of the view were not published yet.
    std::chrono::steady_clock::time_point last_seen;
  };
  // A cancelled unit until its worker says what it took.
  struct Cancelled {
    std::function<void(std::int64_t, bool)> charge;
    std::optional<UnitRow> row;  // Of a durable unit.
    std::int64_t most_ms = 0;
    WorkerLink* holder = nullptr;
    std::chrono::steady_clock::time_point until;
  };
  struct RowChange {
    UnitRow row;
    bool insert = false;
  };

  using UnitAttempt = std::pair<std::string, int>;  // Unit id, attempt.

  void Post(std::function<void()> task);
  void Loop();
  // The rest runs on the thread.
  void HandleConnect(std::shared_ptr<WorkerLink> link, const v1::Hello& hello,
                     const std::string& job_id);
  void HandleMessage(WorkerLink* link, const v1::WorkerMessage& message);
  void HandleHeartbeat(Worker& worker, const v1::Heartbeat& heartbeat);
  void HandleDone(WorkerLink* link, const v1::UnitDone& done);
  void HandleReturned(WorkerLink* link, const v1::UnitReturned& returned);
  void HandleDisconnect(WorkerLink* link, const std::string& reason);
  // Ends the current attempt; starts the next, or declares the unit poison. `device_ms`: what it
  // took of the device, where its worker said so.
  void GiveBack(Unit& unit, const std::string& reason, bool counts,
                std::optional<std::int64_t> device_ms = std::nullopt);
  // The device time that the current attempt may have taken.
  std::int64_t MostDeviceMs(const Unit& unit) const;
  // The worker of a cancelled unit has said what it took, or will not.
  void ChargeCancelled(const UnitAttempt& attempt, std::optional<std::int64_t> device_ms);
  // Sends once all that is written by now is on the disk, in order.
  void Tell(const Worker& worker, v1::ServerMessage message);
  void TellCancel(const Worker& worker, const std::string& unit_id, int attempt);
  void Acknowledge(WorkerLink* link, const std::string& unit_id, int attempt);
  void Expire(std::chrono::steady_clock::time_point now);
  void AssignAll();
  bool AssignOne(Worker& worker);
  void Lease(Unit& unit, Worker& worker);
  // Has workers without a device compile what waits for one (dispatcher_ahead.cc).
  void CompileAhead();
  void TellAhead(Unit& unit, Worker& worker);
  bool CanCompile(const Worker& worker, const UnitTicket& ticket) const;
  // Whether a worker without a device could take it now: those with one leave it then.
  bool CompilerIsFree(const UnitTicket& ticket) const;
  // `result`: null where there is none.
  void EndAhead(WorkerLink* link, const std::string& ahead_id, int attempt,
                const std::string* result_json);
  void StopAhead(Unit& unit);
  // The worker's session is over: others may compile what it had.
  void LoseCompiler(WorkerLink* link);
  // Whether the unit is still to be compiled; then the worker that has come back goes on with it.
  bool ResumeAhead(Worker& worker, const std::string& ahead_id, int attempt);
  // Writes the collected row changes, and has the collected actions run once they are on the disk.
  // False: kept for later.
  bool Commit();
  void Publish();
  void CountUnits();
  void Forget(const std::string& unit_id);
  std::chrono::steady_clock::time_point NextDeadline(
      std::chrono::steady_clock::time_point now) const;
  static bool Runs(const Worker& worker, const UnitTicket& ticket);
  // Who takes part in a round of leases.
  struct Round {
    std::size_t sharing = 0;               // Workers with a device that do not drain.
    std::vector<const Worker*> compilers;  // Those without that do not drain.
  };
  Round BeginRound() const;
  // Units that the worker may hold now: no more than its share, so that a wide worker that came
  // first does not hold what others wait for; at least one on each device and one that compiles
  // meanwhile. No more than those where another worker can compile the rest.
  int Room(const Worker& worker, const Round& round) const;
  // Keeps workers free for units that run alone.
  void Reserve();
  // Whether the unit should wait for another worker than this one.
  bool WaitsForAnother(const Unit& unit, const Worker& worker) const;

  Store& store_;
  Clock& clock_;
  const DispatcherOptions options_;

  // Owned by the thread.
  std::map<std::string, std::unique_ptr<Unit>> units_;  // By id.
  std::map<UnitAttempt, Cancelled> cancelled_;
  std::deque<std::string> rotation_;                         // Jobs, next first.
  std::map<std::string, std::vector<std::string>> pending_;  // Unit ids by job.
  std::map<WorkerLink*, Worker> workers_;
  std::set<std::string> proven_;  // Workers that have delivered results.
  std::vector<RowChange> changes_;
  std::vector<std::function<void()>> after_commit_;
  // Why changes wait to be stored, logged once. kOk: they do not.
  absl::StatusCode not_stored_ = absl::StatusCode::kOk;
  DispatcherCounts counts_;
  std::int64_t delivered_ = 0;  // Units of that state.
  std::function<void()> workers_changed_;
  bool views_stale_ = false;    // What workers hold or report.
  bool members_stale_ = false;  // Which workers there are.

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> inbox_;                                // Guarded by mutex_.
  std::vector<WorkerView> views_;                                          // Guarded by mutex_.
  DispatcherCounts published_counts_;                                      // Guarded by mutex_.
  std::map<std::pair<std::string, std::string>, std::string> toolchains_;  // (target, model).
                                                                           // Guarded by mutex_.
  bool stopping_ = false;                                                  // Guarded by mutex_.
  bool server_stops_ = false;                                              // Of the thread.
  std::thread thread_;
};

}  // namespace fettle
