// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>

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

// The exclusive lane of one device: who holds it runs kernels there, one unit at a time. Knows the
// device's health and keeps what is expensive to make again.
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
    explicit Hold(Lane* lane) : lane_(lane) {}
    Hold(Hold&& other) noexcept : lane_(std::exchange(other.lane_, nullptr)) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
      if (lane_ != nullptr) lane_->Leave();
    }

   private:
    Lane* lane_;
  };
  // kCancelled: `stop` was requested first. kUnavailable: the device is quarantined.
  absl::StatusOr<Hold> Enter(std::stop_token stop);
  // Units that hold the lane or wait for it.
  int load() const;
  // At any time: "ok"; "suspect" after a crash until the device passes its health check;
  // "quarantined" once it failed too often.
  std::string health() const;

  // What is kept of a task: its reference, in sandboxed processes of its own, and what was judged
  // of its candidates on this device (only by whoever holds the lane). At any time.
  struct TaskState {
    std::unique_ptr<Reference> reference;
    JudgementCache judged;
    std::mutex mutex;
    std::set<std::uint64_t> computed_ahead;  // Seeds of units; guarded by `mutex`.
  };
  absl::StatusOr<std::shared_ptr<TaskState>> StateFor(const Task& task);

  // The rest only by whoever holds the lane.

  // A runner for one unit. `fresh`: never used before. Where candidate code runs in the runner
  // itself, every runner is. After a crash the device must pass its health check first.
  absl::StatusOr<RunnerClient*> Runner(bool fresh, std::stop_token stop);
  // Ends the runner unless it is alive and may serve another unit.
  void Done(bool failed);
  // A verified call under the vendor's profiler; no runner uses the device meanwhile.
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
  static constexpr int kReferenceProcesses = 4;

  void Leave();
  RunnerClient::Options RunnerOptions() const;
  absl::StatusOr<std::unique_ptr<RunnerClient>> Start(std::stop_token stop);
  absl::StatusOr<Ceilings> MeasureOnce(std::stop_token stop) const;

  const DeviceInfo device_;
  const LaneOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  bool busy_ = false;         // Guarded by mutex_.
  int waiting_ = 0;           // Guarded by mutex_.
  bool quarantined_ = false;  // Guarded by mutex_.

  std::unique_ptr<RunnerClient> runner_;  // Serves unit after unit.
  std::unique_ptr<RunnerClient> fresh_;   // Serves one.
  std::atomic<bool> suspect_{false};      // A kernel crashed or hung since the last health check.
  int failed_checks_ = 0;
  std::mutex tasks_mutex_;
  std::map<std::string, std::shared_ptr<TaskState>> tasks_;  // By task digest.
  std::optional<Ceilings> ceilings_;
  int raised_nothing_ = 0;  // Times in a row that RaiseCeilings measured for nothing.
};

// Sandbox options for a process that drives `device_id` and reaches no other GPU. `root` as in
// device/gpu_registry.h; `gpus`: those of this machine.
SandboxOptions SandboxFor(const LaneOptions& options, const std::string& device_id,
                          const std::vector<DeviceInfo>& gpus, const std::string& root = "");

}  // namespace fettle
