// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "core/task.h"
#include "device/device.h"
#include "profiler/roofline.h"
#include "verifier/judgement_cache.h"
#include "verifier/reference.h"
#include "worker/count_kernel.h"
#include "worker/emulators.h"
#include "worker/runner_client.h"
#include "worker/sanitizer.h"

namespace fettle {

struct LaneOptions {
  std::string runner_path;
  std::string cache_dir;                              // Ceilings and reference results.
  std::int64_t memory_bytes = std::int64_t{4} << 30;  // Of one runner on cpu.
  std::vector<DeviceInfo> gpus;                       // Of this machine, as FindGpus found them.
  std::optional<Emulator> emulator;                   // Stands in for the device.
  std::int64_t reference_memory_bytes = 0;            // As ReferenceOptions::memory_cache_bytes.
  std::string compute_sanitizer;                      // The program; empty: found.
  SanitizeFunction sanitize;  // Of tests: instead of that program, on any device.
};

// What a unit does while it holds a device.
enum class LaneUse {
  kChecks,  // Verifies small cases; one unit at a time, since more gain nothing: a GPU gives its
            // time to one process after another.
  kLarge,   // Verifies cases of any size, beside a unit that holds kChecks; one unit at a time.
  kAlone,   // Times: nothing else runs on the device.
};

// The lane of one device: who holds it runs kernels there. Knows the device's health and keeps what
// is expensive to make again. A unit that waits to be alone holds back those that would begin to
// verify, unless it waits for a kLarge anyway; so neither starves. Where candidate code runs in the
// runner's own process, every use is kAlone. Thread-safe.
class Lane {
 public:
  Lane(DeviceInfo device, LaneOptions options)
      : device_(std::move(device)), options_(std::move(options)) {}

  const DeviceInfo& device() const { return device_; }
  bool on_cpu() const { return device_.target.vendor == Vendor::kCpu; }
  // Candidate code runs in the runner's own process.
  bool hosts_candidate() const { return on_cpu() || device_.emulated; }

  // Only in tests: the cpu has check mode.
  bool sanitizes_cpu() const { return options_.sanitize != nullptr; }

  // Right to the device; gives it back when destroyed.
  class Hold {
   public:
    Hold(Lane* lane, LaneUse use, bool searching) : lane_(lane), use_(use), searching_(searching) {}
    Hold(Hold&& other) noexcept
        : lane_(std::exchange(other.lane_, nullptr)),
          use_(other.use_),
          searching_(other.searching_) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
      if (lane_ != nullptr) lane_->Leave(use_, searching_);
    }

   private:
    Lane* lane_;
    LaneUse use_;
    bool searching_;
  };
  // Confirmations hold a device for seconds, a search for milliseconds: the patient let those who
  // search go first, until none has for kQuiet, but wait no longer than kPatience.
  enum class Haste { kSearching, kPatient };
  // kCancelled: `stop` was requested first. kUnavailable: the device is quarantined.
  absl::StatusOr<Hold> Enter(LaneUse use, std::stop_token stop, Haste haste = Haste::kSearching);
  // Units that hold the lane or wait for it.
  int load() const;
  // At any time: "ok"; "suspect" after a crash until the device passes its health check;
  // "quarantined" once it failed too often.
  std::string health() const;

  // What is kept of a task: its reference, in sandboxed processes of its own, and what was judged
  // of its candidates on this device. At any time.
  struct TaskState {
    std::unique_ptr<Reference> reference;
    JudgementCache judged;
    std::mutex mutex;
    // By a unit's seed: until the reference has computed what units of that seed are judged by.
    // Guarded by `mutex`. Who computes it waits for it before its unit ends.
    std::map<std::uint64_t, std::shared_future<void>> computed_ahead;
  };
  absl::StatusOr<std::shared_ptr<TaskState>> StateFor(const Task& task);

  // A runner for a hold of this use, its modules all unloaded. `fresh`: never used before. After a
  // crash the device must pass its health check first, and runners from before it are gone.
  // kUnavailable, kCancelled.
  absl::StatusOr<std::unique_ptr<RunnerClient>> Take(LaneUse use, bool fresh, std::stop_token stop);
  // Keeps the runner for later holds of this use, unless it ended or candidate code ran in it.
  void Return(LaneUse use, std::unique_ptr<RunnerClient> runner);
  // Ends the runners that nobody uses, and frees what they hold of the device's memory.
  void EndIdleRunners();
  // A kernel crashed or hung: nothing on the device is to be trusted until its health check.
  void Suspect() { ++faults_; }

  // The rest only while the lane is held alone, Sanitize also while it is held kLarge.

  // A verified call under the vendor's profiler; no runner is kept meanwhile.
  CounterReport Count(const Replay& replay, std::stop_token stop);
  // Verified calls under compute-sanitizer's tools.
  std::vector<SanitizerFinding> Sanitize(const std::vector<Replay>& calls, std::stop_token stop);
  // Measured on first use.
  absl::StatusOr<Ceilings> GetCeilings(std::stop_token stop);
  // After a kernel was faster than they allow: measures them again, beside the runners that wait,
  // and keeps the higher of each. They were too low where something else used the device when they
  // were taken. Stops measuring after a few times that raised nothing.
  absl::StatusOr<Ceilings> RaiseCeilings(std::stop_token stop);

 private:
  static constexpr int kQuarantineAfter = 2;  // Failed health checks in a row.
  static constexpr std::size_t kTasks = 4;
  static constexpr int kRaiseTries = 3;
  static constexpr int kReferenceProcesses = 5;
  static constexpr std::chrono::milliseconds kPatience{3000}, kQuiet{250};

  LaneUse Actual(LaneUse use) const { return hosts_candidate() ? LaneUse::kAlone : use; }
  bool MayEnter(LaneUse use) const;  // With mutex_ held.
  bool NobodySearches() const;       // Likewise.
  bool suspect() const { return faults_ != checked_; }
  void Leave(LaneUse use, bool searching);
  RunnerClient::Options RunnerOptions() const;
  absl::StatusOr<std::unique_ptr<RunnerClient>> Start(std::stop_token stop);
  absl::StatusOr<Ceilings> MeasureOnce(std::stop_token stop) const;

  const DeviceInfo device_;
  const LaneOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_, down to idle_.
  std::map<LaneUse, int> held_;
  std::map<LaneUse, int> waiting_;
  int patient_ = 0;  // Who wait and let others go first; not in waiting_.
  std::chrono::steady_clock::time_point searched_;  // Somebody did last.
  bool quarantined_ = false;
  int failed_checks_ = 0;
  std::map<LaneUse, std::vector<std::unique_ptr<RunnerClient>>> idle_;

  std::atomic<int> faults_{0};   // Kernels that crashed or hung.
  std::atomic<int> checked_{0};  // As many there were at the last health check that was passed.
  std::mutex tasks_mutex_;
  std::map<std::string, std::shared_ptr<TaskState>> tasks_;  // By task digest.
  std::optional<Ceilings> ceilings_;  // Only while held alone, as is what follows.
  int raised_nothing_ = 0;            // Times in a row that RaiseCeilings measured for nothing.
};

// Sandbox options for a process that drives `device_id` and reaches no other GPU. `root` as in
// device/gpu_registry.h; `gpus`: those of this machine.
SandboxOptions SandboxFor(const LaneOptions& options, const std::string& device_id,
                          const std::vector<DeviceInfo>& gpus, const std::string& root = "");

}  // namespace fettle
