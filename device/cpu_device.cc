// SPDX-License-Identifier: Apache-2.0
#include "device/cpu_device.h"

#include <cmath>
#include <cstring>
#include <fstream>

#include <sched.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "core/status_macros.h"
#include "device/cpu_checker.h"
#include "device/cpu_faults.h"
#include "device/cpu_memory.h"
#include "device/cpu_module.h"
#include "device/cpu_pool.h"
#include "device/launch_check.h"

namespace fettle {

void LinkCpuRuntime();
void LinkCpuCheckHooks();

namespace {

using Steady = std::chrono::steady_clock;

constexpr std::int64_t kSharedBytes = 64 * 1024;

int UsableCores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

// The value behind "name\t: " in /proc/cpuinfo, of the first processor; empty: none.
std::string CpuInfo(std::string_view name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(name) || colon == std::string::npos || colon + 2 > line.size()) continue;
    return line.substr(colon + 2);
  }
  return {};
}

std::int64_t LastLevelCacheBytes() {
  for (int index = 4; index >= 0; --index) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    std::int64_t kib = 0;
    if (file >> kib && kib > 0) return kib * 1024;
  }
  return 32 << 20;
}

double ClockMhz() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq");
  double khz = 0;
  if (file >> khz && khz > 0) return khz / 1000;
  const std::string text = CpuInfo("cpu MHz");
  return text.empty() ? 0 : std::strtod(text.c_str(), nullptr);
}

DeviceInfo DescribeMachine(int threads) {
  DeviceInfo info;
  info.id = "cpu";
  info.model = CpuInfo("model name");
  if (info.model.empty()) info.model = "x86-64 processor";
  utsname system = {};
  if (uname(&system) == 0) info.driver = fmt::format("{} {}", system.sysname, system.release);
  struct sysinfo memory = {};
  if (sysinfo(&memory) == 0) {
    info.memory_bytes = static_cast<std::int64_t>(memory.totalram) * memory.mem_unit;
  }
  Target& target = info.target;
  target.name = "cpu";
  target.vendor = Vendor::kCpu;
  target.wave = 32;
  target.lds = target.lds_static = kSharedBytes;
  target.cus = threads;
  target.max_block = kMaxBlockThreads;
  target.cache = LastLevelCacheBytes();
  return info;
}

struct CpuEvent final : DeviceEvent {
  Steady::time_point when;
};

class CpuDeviceImpl final : public CpuDevice {
 public:
  CpuDeviceImpl(const CpuDeviceOptions& options, int threads)
      : limit_(options.launch_limit), info_(DescribeMachine(threads)), pool_(threads) {}

  const DeviceInfo& info() const override { return info_; }
  DeviceState State() override { return {.clock_mhz = ClockMhz()}; }
  void SetLaunchLimit(std::chrono::nanoseconds limit) override { limit_ = limit; }
  void SetSchedule(std::string_view schedule, std::uint64_t seed) override {
    schedule_ = ParseCpuSchedule(schedule).value_or(CpuSchedule::kForward);
    seed_ = seed;
  }
  std::uint64_t switches() const override { return switches_; }

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(std::int64_t size_bytes) override {
    return CpuBuffer::Create(size_bytes, /*page_end=*/false, /*alignment=*/256);
  }
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> AllocatePageEnd(std::int64_t size_bytes,
                                                                std::int64_t align) override {
    if (align <= 0 || (align & (align - 1)) != 0 || align > 4096) {
      return absl::InvalidArgumentError(
          fmt::format("allocate: alignment {} is no power of two up to 4096", align));
    }
    if (size_bytes % align != 0) {
      return absl::InvalidArgumentError(
          fmt::format("allocate: {} bytes are no multiple of the alignment {}", size_bytes, align));
    }
    return CpuBuffer::Create(size_bytes, /*page_end=*/true, align);
  }
  void SetPayload(const DeviceBuffer& buffer, std::int64_t offset,
                  std::int64_t size_bytes) override {
    if (CheckRange(buffer, offset, size_bytes, "set payload").ok()) {
      Mutable(buffer).SetPayload(offset, size_bytes);
    }
  }
  void Annotate(const DeviceBuffer& buffer, const BufferNote& note) override {
    Mutable(buffer).Annotate(note);
  }

  absl::Status CopyIn(DeviceBuffer& to, std::int64_t offset,
                      std::span<const std::uint8_t> from) override {
    const auto size = static_cast<std::int64_t>(from.size());
    FETTLE_RETURN_IF_ERROR(CheckRange(to, offset, size, "copy in"));
    if (size > 0) std::memcpy(Mutable(to).bytes() + offset, from.data(), from.size());
    Mutable(to).MarkWritten(offset, size);
    return absl::OkStatus();
  }
  absl::Status CopyOut(const DeviceBuffer& from, std::int64_t offset,
                       std::span<std::uint8_t> to) override {
    FETTLE_RETURN_IF_ERROR(
        CheckRange(from, offset, static_cast<std::int64_t>(to.size()), "copy out"));
    if (!to.empty()) std::memcpy(to.data(), Mutable(from).bytes() + offset, to.size());
    return absl::OkStatus();
  }
  absl::Status CopyDevice(DeviceBuffer& to, std::int64_t to_offset, const DeviceBuffer& from,
                          std::int64_t from_offset, std::int64_t size_bytes) override {
    FETTLE_RETURN_IF_ERROR(CheckRange(to, to_offset, size_bytes, "copy to"));
    FETTLE_RETURN_IF_ERROR(CheckRange(from, from_offset, size_bytes, "copy from"));
    std::memmove(Mutable(to).bytes() + to_offset, Mutable(from).bytes() + from_offset,
                 static_cast<std::size_t>(size_bytes));
    Mutable(to).MarkWritten(to_offset, size_bytes);
    return absl::OkStatus();
  }
  absl::Status Fill(DeviceBuffer& to, std::int64_t offset, std::int64_t size_bytes,
                    std::uint8_t byte) override {
    FETTLE_RETURN_IF_ERROR(CheckRange(to, offset, size_bytes, "fill"));
    std::memset(Mutable(to).bytes() + offset, byte, static_cast<std::size_t>(size_bytes));
    Mutable(to).MarkWritten(offset, size_bytes);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<DeviceModule>> Load(
      std::string_view code_object, std::span<const std::string> symbols) override {
    return CpuModule::Load(code_object, symbols);
  }

  absl::Status Launch(DeviceModule& module, std::string_view symbol, const LaunchConfig& config,
                      std::span<const KernelArgument> arguments) override {
    FETTLE_RETURN_IF_ERROR(dead_);
    auto& loaded = static_cast<CpuModule&>(module);
    const fettle_cpu_entry* entry = loaded.Entry(symbol);
    if (entry == nullptr) {
      return absl::NotFoundError(fmt::format("launch: no kernel {}", std::string(symbol)));
    }
    FETTLE_RETURN_IF_ERROR(CheckArguments(*entry, config, arguments));
    FETTLE_RETURN_IF_ERROR(CheckLaunch(config, info_.target, loaded.static_shared_bytes(*entry)));
    std::vector<void*> pointers;
    pointers.reserve(arguments.size() + 1);
    for (const KernelArgument& argument : arguments) {
      pointers.push_back(const_cast<std::uint8_t*>(argument.data()));
    }
    pointers.push_back(nullptr);
    return Run(loaded, *entry, config, pointers.data());
  }
  absl::Status Synchronize(std::chrono::nanoseconds /*limit*/) override { return dead_; }

  absl::StatusOr<std::unique_ptr<DeviceEvent>> Record() override {
    auto event = std::make_unique<CpuEvent>();
    event->when = Steady::now();
    return event;
  }
  absl::StatusOr<double> ElapsedNs(const DeviceEvent& from, const DeviceEvent& to) override {
    return std::chrono::duration<double, std::nano>(static_cast<const CpuEvent&>(to).when -
                                                    static_cast<const CpuEvent&>(from).when)
        .count();
  }

  // A call costs next to nothing here, and a recording would have to hold fills, copies and what
  // brings a module's variables back as well as launches.
  absl::Status BeginCapture() override {
    return absl::UnimplementedError("the cpu has no graphs: make the calls one by one");
  }
  absl::StatusOr<std::unique_ptr<DeviceGraph>> EndCapture() override {
    return std::unique_ptr<DeviceGraph>();
  }
  absl::Status Replay(DeviceGraph&) override {
    return absl::UnimplementedError("the cpu has no graphs");
  }
  absl::Status Spin(std::chrono::nanoseconds duration) override {
    const Steady::time_point end = Steady::now() + duration;
    while (Steady::now() < end) {
    }
    return absl::OkStatus();
  }
  absl::Status ResetPersistingCache() override { return absl::OkStatus(); }
  std::vector<CheckFinding> TakeFindings() override { return findings_.Take(); }

 private:
  static CpuBuffer& Mutable(const DeviceBuffer& buffer) {
    return const_cast<CpuBuffer&>(static_cast<const CpuBuffer&>(buffer));
  }

  static absl::Status CheckArguments(const fettle_cpu_entry& entry, const LaunchConfig& config,
                                     std::span<const KernelArgument> arguments) {
    if (static_cast<std::size_t>(entry.argument_count) != arguments.size()) {
      return absl::InvalidArgumentError(fmt::format("launch {}: {} arguments, the kernel takes {}",
                                                    entry.name, arguments.size(),
                                                    entry.argument_count));
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (static_cast<std::size_t>(entry.argument_bytes[i]) != arguments[i].size()) {
        return absl::InvalidArgumentError(
            fmt::format("launch {}: argument {} has {} bytes, the kernel's parameter {}",
                        entry.name, i, arguments[i].size(), entry.argument_bytes[i]));
      }
    }
    if (config.cluster[0] > 1 || config.cluster[1] > 1 || config.cluster[2] > 1) {
      return absl::InvalidArgumentError(
          fmt::format("launch {}: the cpu target has no clusters", entry.name));
    }
    return absl::OkStatus();
  }

  absl::Status Run(CpuModule& module, const fettle_cpu_entry& entry, const LaunchConfig& config,
                   void** arguments) {
    CpuLaunch launch;
    launch.entry = &entry;
    launch.module = &module.facts();
    launch.arguments = arguments;
    for (std::size_t i = 0; i < 3; ++i) {
      launch.grid[i] = static_cast<unsigned>(config.grid[i]);
      launch.block[i] = static_cast<unsigned>(config.block[i]);
    }
    launch.lanes = module.facts().lanes;
    launch.dynamic_shared_bytes = config.shared_bytes;
    launch.schedule = schedule_;
    launch.seed = seed_;
    launch.findings = &findings_;
    const bool check = module.facts().check != 0;
    // In a loop the threads of a block run forward, so other schedules need fibers.
    launch.fibers =
        check || module.waits() || entry.loop == nullptr || schedule_ != CpuSchedule::kForward;
    const bool one_thread = check || schedule_ != CpuSchedule::kForward;
    std::unique_ptr<CpuChecker> checker;
    findings_.SetFile(check ? module.main_file() : "");
    if (check) {
      CpuBuffer* dynamic = pool_.DynamicShared(config.shared_bytes);
      if (dynamic == nullptr) return absl::ResourceExhaustedError("launch: no shared memory");
      checker = std::make_unique<CpuChecker>(module, pool_.runner(0), findings_, dynamic,
                                             config.shared_bytes);
      launch.checker = checker.get();
    }
    RegisterKernelThread();
    const FaultStack stack;
    const std::uint64_t switches = pool_.runner(0).switches();
    absl::Status status;
    bool expired = false;
    {
      const LaunchDeadline deadline(limit_);
      status = pool_.Run(launch, one_thread ? 1 : pool_.threads());
      expired = limit_.count() > 0 && LaunchDeadline::Expired();
    }
    UnregisterKernelThread();
    switches_ = pool_.runner(0).switches() - switches;
    if (!absl::IsAborted(status)) return status;
    return Explain(module, entry, check, expired || (checker != nullptr && checker->hung()));
  }

  // The status of a launch that was abandoned.
  absl::Status Explain(CpuModule& module, const fettle_cpu_entry& entry, bool check, bool expired) {
    if (expired) {
      const std::string text =
          LaunchDeadline::Expired()
              ? fmt::format("launch {}: not finished after {:.3g} s", entry.name,
                            std::chrono::duration<double>(limit_).count())
              : fmt::format("launch {}: its threads spin without progress", entry.name);
      if (check) {
        findings_.Add({.kind = "hang", .message = text, .file = module.main_file()}, entry.name);
      }
      return dead_ = absl::DeadlineExceededError(text);
    }
    if (check) return absl::OkStatus();
    const CheckFinding last = findings_.Last();
    const std::string where = last.line > 0 ? fmt::format(" at line {}", last.line) : "";
    return dead_ = absl::AbortedError(
               fmt::format("{}: kernel {}: {}{}", last.kind, entry.name, last.message, where));
  }

  std::chrono::nanoseconds limit_;
  DeviceInfo info_;
  CpuSchedule schedule_ = CpuSchedule::kForward;
  std::uint64_t seed_ = 0, switches_ = 0;
  CpuFindings findings_;
  absl::Status dead_;  // Once set, every launch returns it.
  CpuPool pool_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CpuDevice>> CpuDevice::Create(const CpuDeviceOptions& options) {
  LinkCpuRuntime();
  LinkCpuCheckHooks();
  InstallFaultHandlers();
  const int threads = options.threads > 0 ? options.threads : UsableCores();
  return std::make_unique<CpuDeviceImpl>(options, threads);
}

}  // namespace fettle
