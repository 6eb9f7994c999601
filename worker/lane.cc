// SPDX-License-Identifier: Apache-2.0
#include "worker/lane.h"

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

absl::StatusOr<Lane::Hold> Lane::Enter(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  const bool mine = changed_.wait(lock, stop, [this] { return !busy_ || quarantined_; });
  --waiting_;
  if (!mine) return absl::CancelledError("the unit was cancelled while it waited for its device");
  if (quarantined_) {
    return absl::UnavailableError(
        fmt::format("device {} is quarantined: it failed its health check {} times; check the "
                    "device and restart the worker",
                    device_.id, kQuarantineAfter));
  }
  busy_ = true;
  return Hold(this);
}

void Lane::Leave() {
  const std::lock_guard lock(mutex_);
  busy_ = false;
  changed_.notify_all();
}

int Lane::load() const {
  const std::lock_guard lock(mutex_);
  return waiting_ + (busy_ ? 1 : 0);
}

std::string Lane::health() const {
  const std::lock_guard lock(mutex_);
  return quarantined_ ? "quarantined" : suspect_ ? "suspect" : "ok";
}

RunnerClient::Options Lane::RunnerOptions() const {
  RunnerClient::Options options;
  options.sandbox = SandboxFor(options_, device_.id, options_.gpus);
  return options;
}

absl::StatusOr<std::unique_ptr<RunnerClient>> Lane::Start(std::stop_token stop) {
  FETTLE_ASSIGN_OR_RETURN(std::unique_ptr<RunnerClient> runner,
                          RunnerClient::Start(RunnerOptions(), stop));
  if (!suspect_) return runner;
  const absl::Status health = runner->CheckHealth();
  if (absl::IsCancelled(health)) return health;
  if (health.ok()) {
    suspect_ = false;
    failed_checks_ = 0;
    return runner;
  }
  if (++failed_checks_ >= kQuarantineAfter) {
    const std::lock_guard lock(mutex_);
    quarantined_ = true;
    changed_.notify_all();
  }
  return absl::UnavailableError(std::string(health.message()));
}

absl::StatusOr<RunnerClient*> Lane::Runner(bool fresh, std::stop_token stop) {
  // The one that searches keeps its inputs while others confirm.
  std::unique_ptr<RunnerClient>& runner = fresh ? fresh_ : runner_;
  if (runner != nullptr && (fresh || !runner->alive())) runner.reset();
  if (runner == nullptr) {
    FETTLE_ASSIGN_OR_RETURN(runner, Start(stop));
  }
  runner->set_stop(std::move(stop));
  return runner.get();
}

void Lane::Done(bool failed) {
  fresh_.reset();
  // After a fault nothing on the device is to be trusted.
  if (failed) suspect_ = true;
  if (failed || hosts_candidate() || (runner_ != nullptr && !runner_->alive())) runner_.reset();
  if (runner_ != nullptr) runner_->set_stop({});
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
  runner_.reset();
  fresh_.reset();
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
    runner_.reset();  // Nothing else may use the device meanwhile.
    fresh_.reset();
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
