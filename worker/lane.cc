// SPDX-License-Identifier: Apache-2.0
#include "worker/lane.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "device/gpu_registry.h"
#include "profiler/ceilings.h"

namespace fettle {
namespace {

class SandboxedReference final : public ReferenceProcess {
 public:
  explicit SandboxedReference(std::unique_ptr<SandboxedProcess> process)
      : process_(std::move(process)) {}
  int channel() const override { return process_->channel(); }
  std::string Ending() override {
    const std::optional<ProcessEnd> end = process_->WaitEnd(std::chrono::milliseconds(500));
    return end ? end->Describe() : "still running";
  }

 private:
  std::unique_ptr<SandboxedProcess> process_;
};

StartReference ReferenceStarter(const LaneOptions& options) {
  SandboxOptions sandbox;
  sandbox.runner_path = options.runner_path;
  sandbox.runner_args = {"--reference"};
  sandbox.memory_bytes = options.memory_bytes;
  return [sandbox]() -> absl::StatusOr<std::unique_ptr<ReferenceProcess>> {
    FETTLE_ASSIGN_OR_RETURN(std::unique_ptr<SandboxedProcess> process,
                            SandboxedProcess::Start(sandbox));
    return std::make_unique<SandboxedReference>(std::move(process));
  };
}

}  // namespace

SandboxOptions SandboxFor(const LaneOptions& options, const std::string& device_id,
                          const std::vector<DeviceInfo>& gpus, const std::string& root) {
  SandboxOptions sandbox;
  sandbox.runner_path = options.runner_path;
  sandbox.runner_args = {"--device", device_id};
  sandbox.memory_bytes = options.memory_bytes;
  if (device_id != "cpu" && device_id != "null") {
    sandbox.device_binds = GpuDeviceNodes(root);
    for (const DeviceInfo& gpu : gpus) {
      if (gpu.id != device_id) continue;
      GpuView view = GpuViewOf(gpu, root);
      sandbox.device_binds = std::move(view.nodes);
      sandbox.environment = std::move(view.environment);
      sandbox.runner_args = {"--device", view.id};
    }
    // A driver maps host memory by the gigabyte; only a runaway is stopped.
    sandbox.memory_bytes = std::int64_t{64} << 30;
    sandbox.threads = 4096;
    // A driver library that the operator chose is chosen inside too.
    for (const char* name : {"FETTLE_CUDA_LIBRARY", "FETTLE_HIP_LIBRARY"}) {
      const char* file = std::getenv(name);
      if (file == nullptr || *file == '\0') continue;
      sandbox.environment.push_back(fmt::format("{}={}", name, file));
      sandbox.read_only_binds.emplace_back(file);
    }
  }
  if (options.emulator) options.emulator->ApplyTo(sandbox);
  return sandbox;
}

bool Lane::MayEnter(LaneUse use) const {
  const auto count = [](const std::map<LaneUse, int>& counts, LaneUse one) {
    const auto found = counts.find(one);
    return found == counts.end() ? 0 : found->second;
  };
  const bool checks = count(held_, LaneUse::kChecks) > 0;
  const bool large = count(held_, LaneUse::kLarge) > 0;
  if (count(held_, LaneUse::kAlone) > 0) return false;
  const bool wanted_alone = count(waiting_, LaneUse::kAlone) > 0;
  switch (use) {
    case LaneUse::kChecks:
      return !checks && (!wanted_alone || large);
    case LaneUse::kLarge:
      return !large && !wanted_alone;
    case LaneUse::kAlone:
      break;
  }
  return !checks && !large;
}

bool Lane::NobodySearches() const {
  return std::chrono::steady_clock::now() - searched_ >= kQuiet &&
         std::all_of(waiting_.begin(), waiting_.end(),
                     [](const auto& one) { return one.second == 0; });
}

absl::StatusOr<Lane::Hold> Lane::Enter(LaneUse use, std::stop_token stop, Haste haste) {
  use = Actual(use);
  const bool searching = haste == Haste::kSearching;
  const auto patient_until = std::chrono::steady_clock::now() + kPatience;
  std::unique_lock lock(mutex_);
  bool mine = false;
  if (!searching) ++patient_;
  while (!searching && !mine && !quarantined_ && !stop.stop_requested() &&
         std::chrono::steady_clock::now() < patient_until) {
    mine = changed_.wait_for(lock, stop, kQuiet / 10,
                             [this, use] { return NobodySearches() && MayEnter(use); });
  }
  if (!searching) --patient_;
  if (!mine) {
    ++waiting_[use];
    mine = changed_.wait(lock, stop, [this, use] { return MayEnter(use) || quarantined_; });
    --waiting_[use];
  }
  changed_.notify_all();  // Those that this one held back.
  if (!mine) return absl::CancelledError("the unit was cancelled while it waited for its device");
  if (quarantined_) {
    return absl::UnavailableError(
        fmt::format("device {} is quarantined: it failed its health check {} times; check the "
                    "device and restart the worker",
                    device_.id, kQuarantineAfter));
  }
  ++held_[use];
  if (searching) searched_ = std::chrono::steady_clock::now();
  return Hold(this, use, searching);
}

void Lane::Leave(LaneUse use, bool searching) {
  const std::lock_guard lock(mutex_);
  --held_[use];
  if (searching) searched_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

int Lane::load() const {
  const std::lock_guard lock(mutex_);
  int units = patient_;
  for (const auto& [use, count] : held_) units += count;
  for (const auto& [use, count] : waiting_) units += count;
  return units;
}

std::string Lane::health() const {
  const std::lock_guard lock(mutex_);
  return quarantined_ ? "quarantined" : suspect() ? "suspect" : "ok";
}

RunnerClient::Options Lane::RunnerOptions() const {
  RunnerClient::Options options;
  options.sandbox = SandboxFor(options_, device_.id, options_.gpus);
  return options;
}

absl::StatusOr<std::unique_ptr<RunnerClient>> Lane::Start(std::stop_token stop) {
  FETTLE_ASSIGN_OR_RETURN(std::unique_ptr<RunnerClient> runner,
                          RunnerClient::Start(RunnerOptions(), stop));
  if (!suspect()) return runner;
  const int faults = faults_;
  const absl::Status health = runner->CheckHealth();
  if (absl::IsCancelled(health)) return health;
  const std::lock_guard lock(mutex_);
  if (health.ok()) {
    checked_ = faults;
    failed_checks_ = 0;
    return runner;
  }
  if (++failed_checks_ >= kQuarantineAfter) {
    quarantined_ = true;
    changed_.notify_all();
  }
  return absl::UnavailableError(std::string(health.message()));
}

absl::StatusOr<std::unique_ptr<RunnerClient>> Lane::Take(LaneUse use, bool fresh,
                                                         std::stop_token stop) {
  if (suspect()) EndIdleRunners();
  std::unique_ptr<RunnerClient> runner;
  if (!fresh) {
    const std::lock_guard lock(mutex_);
    std::vector<std::unique_ptr<RunnerClient>>& idle = idle_[Actual(use)];
    if (!idle.empty()) {
      runner = std::move(idle.back());
      idle.pop_back();
    }
  }
  if (runner == nullptr || !runner->alive()) {
    FETTLE_ASSIGN_OR_RETURN(runner, Start(stop));
  }
  runner->set_stop(std::move(stop));
  return runner;
}

void Lane::Return(LaneUse use, std::unique_ptr<RunnerClient> runner) {
  if (hosts_candidate() || suspect() || !runner->alive()) return;
  runner->set_stop({});
  const std::lock_guard lock(mutex_);
  idle_[use].push_back(std::move(runner));
}

void Lane::EndIdleRunners() {
  std::map<LaneUse, std::vector<std::unique_ptr<RunnerClient>>> ended;
  const std::lock_guard lock(mutex_);
  ended.swap(idle_);
}

absl::StatusOr<std::shared_ptr<Lane::TaskState>> Lane::StateFor(const Task& task) {
  const std::lock_guard lock(tasks_mutex_);
  const auto found = tasks_.find(task.digest());
  if (found != tasks_.end()) return found->second;
  if (tasks_.size() >= kTasks) tasks_.erase(tasks_.begin());
  ReferenceOptions options;
  options.start = ReferenceStarter(options_);
  options.cache_dir = options_.cache_dir;
  options.memory_cache_bytes = options_.reference_memory_bytes;
  // On the cpu a second one would take cores from what is timed.
  if (!on_cpu()) options.processes = kReferenceProcesses;
  auto state = std::make_shared<TaskState>();
  FETTLE_ASSIGN_OR_RETURN(state->reference,
                          Reference::Create(ReferenceSourceOf(task), std::move(options)));
  return tasks_[task.digest()] = std::move(state);
}

CounterReport Lane::Count(const Replay& replay, std::stop_token stop) {
  CountOptions options;
  options.runner_path = options_.runner_path;
  options.device_id = device_.id;
  options.vendor = device_.target.vendor;
  if (hosts_candidate()) {
    CounterReport report;
    report.absent = fmt::format("{} has no hardware counters of kernels", device_.model);
    return report;
  }
  EndIdleRunners();
  return CountKernel(replay, options, std::move(stop));
}

std::vector<SanitizerFinding> Lane::Sanitize(const std::vector<Replay>& calls,
                                             std::stop_token stop) {
  if (options_.sanitize) return options_.sanitize(calls, std::move(stop));
  // Its kernels would run outside the sandbox, in a process of their own.
  if (hosts_candidate()) return NotSanitized(device_.model + " is no GPU of NVIDIA's");
  if (device_.target.vendor != Vendor::kNvidia) {
    return NotSanitized("compute-sanitizer knows GPUs of NVIDIA only");
  }
  SanitizerOptions options;
  options.program = options_.compute_sanitizer;
  return SanitizeCalls(calls, options_.runner_path, device_.id, options, std::move(stop));
}

absl::StatusOr<Ceilings> Lane::GetCeilings(std::stop_token stop) {
  if (ceilings_) return *ceilings_;
  const auto measure = [this, &stop]() -> absl::StatusOr<Ceilings> {
    EndIdleRunners();  // Nothing else may use the device meanwhile.
    return MeasureOnce(stop);
  };
  FETTLE_ASSIGN_OR_RETURN(ceilings_, StoredCeilings(options_.cache_dir, device_, measure));
  return *ceilings_;
}

absl::StatusOr<Ceilings> Lane::MeasureOnce(std::stop_token stop) const {
  RunnerClient::Options options = RunnerOptions();
  options.sandbox.runner_args.push_back("--ceilings");
  FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<RunnerClient> runner,
                          RunnerClient::Start(std::move(options), std::move(stop)));
  return runner->MeasureCeilings();
}

absl::StatusOr<Ceilings> Lane::RaiseCeilings(std::stop_token stop) {
  FETTLE_ASSIGN_OR_RETURN(const Ceilings before, GetCeilings(stop));
  if (raised_nothing_ >= kRaiseTries) return before;
  FETTLE_ASSIGN_OR_RETURN(const Ceilings now, MeasureOnce(std::move(stop)));
  const Ceilings highest = Highest(before, now);
  if (ToJson(highest) == ToJson(before)) {
    ++raised_nothing_;
    return before;
  }
  raised_nothing_ = 0;
  ceilings_ = highest;
  StoreCeilings(options_.cache_dir, device_, highest);
  return highest;
}

}  // namespace fettle
