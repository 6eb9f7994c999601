// SPDX-License-Identifier: Apache-2.0
#include "worker/unit_runner.h"

#include <algorithm>
#include <filesystem>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "core/portable_target.h"
#include "core/status_macros.h"
#include "device/gpu_registry.h"
#include "profiler/ceilings.h"
#include "worker/device_reports.h"
#include "worker/lane.h"
#include "worker/lane_gate.h"
#include "worker/runner_client.h"
#include "worker/toolchains.h"
#include "worker/unit_device_time.h"
#include "worker/unit_job.h"
#include "worker/unit_stop.h"

namespace fettle {
namespace {

constexpr std::size_t kParsedTasks = 32;

// A folder that goes away with its owner; none when empty.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }

 private:
  std::string path_;
};

class UnitRunnerImpl final : public UnitRunner {
 public:
  UnitRunnerImpl(TemporaryFolder folder, Toolchains toolchains,
                 std::vector<std::unique_ptr<Lane>> lanes, std::unique_ptr<Lane> check_lane,
                 int compile_jobs, std::string cache_dir)
      : folder_(std::move(folder)),
        reports_(std::move(cache_dir)),
        toolchains_(std::move(toolchains)),
        lanes_(std::move(lanes)),
        check_lane_(std::move(check_lane)),
        gate_(compile_jobs) {}

  std::vector<DeviceInfo> devices() const override {
    std::vector<DeviceInfo> devices;
    for (const auto& lane : lanes_) devices.push_back(lane->device());
    return devices;
  }
  nlohmann::json compilers() const override { return toolchains_.Describe(); }
  absl::StatusOr<UnitResult> Run(const WorkUnit& unit, BlobStore& blobs,
                                 const std::function<void(std::string)>& progress,
                                 std::stop_token stop) override;
  absl::StatusOr<nlohmann::json> CeilingsOf(const std::string& device_id,
                                            std::stop_token stop) override;
  nlohmann::json DeviceStates() override;

 private:
  absl::StatusOr<std::shared_ptr<const Task>> TaskOf(const WorkUnit& unit, BlobStore& blobs);
  absl::StatusOr<Lane*> LaneFor(const WorkUnit& unit);

  const TemporaryFolder folder_;
  DeviceReports reports_;
  const Toolchains toolchains_;
  const std::vector<std::unique_ptr<Lane>> lanes_;
  // A cpu of its own for check mode of other devices' kernels; null where the cpu is offered alone.
  const std::unique_ptr<Lane> check_lane_;
  LaneGate gate_;
  std::mutex mutex_;
  std::list<std::pair<std::string, std::shared_ptr<const Task>>> tasks_;  // Guarded by mutex_.
};

absl::StatusOr<std::shared_ptr<const Task>> UnitRunnerImpl::TaskOf(const WorkUnit& unit,
                                                                   BlobStore& blobs) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [blob, task] : tasks_) {
      if (blob == unit.task_blob) return task;
    }
  }
  FETTLE_ASSIGN_OR_RETURN(const std::string packed, blobs.Get(unit.task_blob));
  FETTLE_ASSIGN_OR_RETURN(TaskFiles files, UnpackTaskFiles(packed));
  std::vector<TaskProblem> problems;
  FETTLE_ASSIGN_OR_RETURN(std::shared_ptr<const Task> task,
                          Task::Parse(std::move(files), &problems));
  if (!unit.task_digest.empty() && unit.task_digest != task->digest()) {
    return absl::InvalidArgumentError(fmt::format("unit {}: its task has digest {}, not {}",
                                                  unit.id, task->digest(), unit.task_digest));
  }
  const std::lock_guard lock(mutex_);
  tasks_.emplace_front(unit.task_blob, task);
  if (tasks_.size() > kParsedTasks) tasks_.pop_back();
  return task;
}

// The device of the unit's target and model with the least to do.
absl::StatusOr<Lane*> UnitRunnerImpl::LaneFor(const WorkUnit& unit) {
  Lane* best = nullptr;
  // A worker without devices still has a cpu for what is not timed.
  if (lanes_.empty() && check_lane_ != nullptr && unit.check_mode && unit.target == "cpu") {
    return check_lane_.get();
  }
  for (const auto& lane : lanes_) {
    const DeviceInfo& device = lane->device();
    const bool fits = device.target.name == unit.target &&
                      (unit.device_model.empty() || unit.device_model == device.model);
    if (!fits) continue;
    const auto rank = [](const Lane& one) { return std::pair(one.device().emulated, one.load()); };
    if (best == nullptr || rank(*lane) < rank(*best)) best = lane.get();
  }
  if (best != nullptr) return best;
  std::string have;
  for (const auto& lane : lanes_) {
    have += fmt::format("{}{} ({})", have.empty() ? "" : ", ", lane->device().id,
                        lane->device().target.name);
  }
  return absl::UnavailableError(fmt::format(
      "no device here runs target {}{}; this worker has {}", unit.target,
      unit.device_model.empty() ? "" : " on a " + unit.device_model, have.empty() ? "none" : have));
}

absl::StatusOr<UnitResult> UnitRunnerImpl::Run(const WorkUnit& unit, BlobStore& blobs,
                                               const std::function<void(std::string)>& progress,
                                               std::stop_token stop) {
  if (unit.deadline_ms <= 0) {
    return absl::InvalidArgumentError(
        fmt::format("unit {}: deadline_ms must be positive", unit.id));
  }
  UnitServices services;
  FETTLE_ASSIGN_OR_RETURN(services.task, TaskOf(unit, blobs));
  FETTLE_ASSIGN_OR_RETURN(services.target, FindDeviceTarget(unit.target));
  if (unit.kind != UnitKind::kCompile) {
    FETTLE_ASSIGN_OR_RETURN(services.lane, LaneFor(unit));
    services.target = services.lane->device().target;
  }
  FETTLE_ASSIGN_OR_RETURN(services.compiler, toolchains_.For(services.target));
  if (check_lane_ != nullptr && services.target.vendor != Vendor::kCpu) {
    const auto compiler = toolchains_.For(check_lane_->device().target);
    if (compiler.ok()) {
      services.check_lane = check_lane_.get();
      services.check_compiler = *compiler;
    }
  }
  const UnitStop limited(stop, std::chrono::milliseconds(unit.deadline_ms));
  services.gate = &gate_;
  services.cache = toolchains_.cache();
  services.blobs = &blobs;
  services.progress = progress;
  services.stop = limited.token();
  UnitJob job(unit, std::move(services));
  absl::StatusOr<UnitResult> result = job.Run();
  if (result.ok()) return result;
  absl::Status status = result.status();
  if (absl::IsCancelled(status) && !stop.stop_requested() && limited.expired()) {
    status = absl::DeadlineExceededError(
        fmt::format("unit {} did not end within its {} ms", unit.id, unit.deadline_ms));
  }
  return WithDeviceNs(std::move(status), job.device_ns());
}

absl::StatusOr<nlohmann::json> UnitRunnerImpl::CeilingsOf(const std::string& device_id,
                                                          std::stop_token stop) {
  for (const auto& lane : lanes_) {
    if (lane->device().id != device_id) continue;
    if (lane->device().emulated) {
      return absl::FailedPreconditionError(
          fmt::format("measure {}: it is emulated, and its times do not count", device_id));
    }
    LaneGate::Ticket ticket;
    if (lane->on_cpu()) ticket = gate_.EnterTiming(stop);
    FETTLE_ASSIGN_OR_RETURN(const Lane::Hold hold, lane->Enter(LaneUse::kAlone, stop));
    FETTLE_ASSIGN_OR_RETURN(const Ceilings ceilings, lane->GetCeilings(stop));
    return ToJson(ceilings);
  }
  return absl::NotFoundError(fmt::format("measure {}: no such device here", device_id));
}

nlohmann::json UnitRunnerImpl::DeviceStates() {
  nlohmann::json states = nlohmann::json::array();
  for (const auto& lane : lanes_) {
    const DeviceInfo& device = lane->device();
    nlohmann::json state = reports_.Of(device);
    state["id"] = device.id;
    state["model"] = device.model;
    state["target"] = device.target.name;
    state["driver"] = device.driver;
    state["uuid"] = device.uuid;
    state["partition"] = device.partition;
    state["emulated"] = device.emulated;
    state["health"] = lane->health();
    state["load"] = lane->load();
    states.push_back(std::move(state));
  }
  return states;
}

std::string BesideThisProgram() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / "fettle-runner").string();
}

// Asks a runner for the device, so that a driver that crashes does so elsewhere. kUnavailable.
absl::StatusOr<std::unique_ptr<Lane>> OpenLane(const std::string& id, const LaneOptions& options) {
  RunnerClient::Options start;
  start.sandbox = SandboxFor(options, id, options.gpus);
  const auto runner = RunnerClient::Start(std::move(start), {});
  if (!runner.ok()) {
    return absl::UnavailableError(fmt::format("device {}{}: {}", id,
                                              options.emulator ? " behind its emulator" : "",
                                              std::string(runner.status().message())));
  }
  DeviceInfo device = (*runner)->device();
  if (id != "cpu" && id != "null") device.id = id;  // Inside, the only GPU is always the first.
  if (options.emulator) {
    device.emulated = true;
    // Another model: nothing measured or judged on the real one is ever mixed with it.
    device.model += ", emulated";
  }
  return std::make_unique<Lane>(std::move(device), options);
}

struct Lanes {
  std::vector<std::unique_ptr<Lane>> open;
  absl::Status problem;  // The first device that could not be opened.

  void Open(const std::string& id, const LaneOptions& options) {
    absl::StatusOr<std::unique_ptr<Lane>> lane = OpenLane(id, options);
    problem.Update(lane.status());
    if (lane.ok()) open.push_back(*std::move(lane));
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<UnitRunner>> UnitRunner::Create(UnitRunnerOptions options) {
  if (options.runner_path.empty()) options.runner_path = BesideThisProgram();
  std::string temporary;
  if (options.cache_dir.empty()) {
    std::string fresh = (std::filesystem::temp_directory_path() / "fettle-worker-XXXXXX").string();
    if (mkdtemp(fresh.data()) == nullptr) {
      return absl::UnavailableError(fmt::format("make cache folder {}", fresh));
    }
    options.cache_dir = temporary = fresh;
  }
  TemporaryFolder folder(std::move(temporary));
  if (options.compile_only && (!options.device_ids.empty() || !options.emulators_file.empty())) {
    return absl::InvalidArgumentError("a worker that only compiles offers no devices");
  }
  const bool all_devices = options.device_ids.empty() && !options.compile_only;
  if (all_devices) {
    options.device_ids = {"cpu"};
  }
  std::vector<DeviceInfo> gpus;
  if (all_devices || SeveralGpus()) {
    for (const GpuInventory& inventory : FindGpus()) {
      for (const DeviceInfo& device : inventory.devices) gpus.push_back(device);
    }
  }
  if (all_devices) {
    for (const DeviceInfo& device : gpus) options.device_ids.push_back(device.id);
  }
  LaneOptions lane_options{.runner_path = options.runner_path, .cache_dir = options.cache_dir};
  lane_options.compute_sanitizer = options.compute_sanitizer;
  lane_options.reference_memory_bytes = options.reference_memory_bytes;
  lane_options.sanitize = options.sanitize;
  lane_options.gpus = std::move(gpus);
  Lanes lanes;
  for (const std::string& id : options.device_ids) lanes.Open(id, lane_options);
  // A device that was asked for by name must be there.
  if (!lanes.problem.ok() && (!all_devices || lanes.open.empty())) return lanes.problem;
  if (!options.emulators_file.empty()) {
    FETTLE_ASSIGN_OR_RETURN(const auto emulators, ReadEmulators(options.emulators_file));
    for (const auto& [id, emulator] : emulators) {
      lane_options.emulator = emulator;
      lanes.Open(id, lane_options);
      if (!lanes.problem.ok()) return lanes.problem;
    }
  }
  const bool gpu = std::any_of(lanes.open.begin(), lanes.open.end(),
                               [](const std::unique_ptr<Lane>& lane) { return !lane->on_cpu(); });
  Toolchains toolchains = Toolchains::Find(options.cache_dir, gpu || options.compile_only);
  if (toolchains.empty()) {
    return absl::UnavailableError("no compiler for any target was found; install g++");
  }
  const int jobs = options.compile_jobs > 0
                       ? options.compile_jobs
                       : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::unique_ptr<Lane> check_lane;
  if (gpu || options.compile_only) {
    lane_options.emulator.reset();
    absl::StatusOr<std::unique_ptr<Lane>> cpu = OpenLane("cpu", lane_options);
    if (cpu.ok()) check_lane = *std::move(cpu);
  }
  return std::make_unique<UnitRunnerImpl>(std::move(folder), std::move(toolchains),
                                          std::move(lanes.open), std::move(check_lane), jobs,
                                          options.cache_dir);
}

}  // namespace fettle
