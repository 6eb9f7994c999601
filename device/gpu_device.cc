// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_device.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "core/code_object/elf.h"
#include "core/status_macros.h"
#include "device/gpu_kernels.h"
#include "device/gpu_module.h"
#include "device/launch_check.h"

namespace fettle {
namespace {

using Shared = GpuDevice::Shared;

// A copy waits at most this long for the work before it.
constexpr std::chrono::seconds kDrainLimit{60};
constexpr unsigned kNonBlockingStream = 1;
constexpr int kCaptureRelaxed = 2;
constexpr unsigned char kFreedByte = 0xA7;
constexpr std::int64_t kMostIdleBytes = std::int64_t{16} << 30;
constexpr std::size_t kMostIdleBlocks = 16384;
constexpr std::size_t kDigestsAtOnce = 256;
constexpr std::int64_t kBytesPerDigestBlock = 16 * 1024;

class GpuBuffer final : public DeviceBuffer {
 public:
  GpuBuffer(std::shared_ptr<Shared> shared, std::uint64_t address, std::int64_t size_bytes)
      : shared_(std::move(shared)), address_(address), size_bytes_(size_bytes) {}
  ~GpuBuffer() override {
    Shared& shared = *shared_;
    if (!shared.broken.ok()) return;
    const std::int64_t size = std::max<std::int64_t>(size_bytes_, 1);
    const bool keep = shared.idle_bytes + size <= shared.most_idle_bytes &&
                      shared.idle_memory.size() < kMostIdleBlocks && shared.stream != nullptr;
    if (keep && shared.api->fill(address_, kFreedByte, static_cast<std::size_t>(size),
                                 shared.stream) == kGpuSuccess) {
      shared.idle_memory.emplace(size, address_);
      shared.idle_bytes += size;
      return;
    }
    shared.api->memory_free(address_);
  }
  std::uint64_t address() const override { return address_; }
  std::int64_t size_bytes() const override { return size_bytes_; }

 private:
  std::shared_ptr<Shared> shared_;
  std::uint64_t address_;
  std::int64_t size_bytes_;
};

class GpuEvent final : public DeviceEvent {
 public:
  GpuEvent(std::shared_ptr<Shared> shared, GpuHandle handle)
      : shared_(std::move(shared)), handle_(handle) {}
  ~GpuEvent() override { shared_->idle_events.push_back(handle_); }
  GpuHandle handle() const { return handle_; }

 private:
  std::shared_ptr<Shared> shared_;
  GpuHandle handle_;
};

class GpuGraph final : public DeviceGraph {
 public:
  GpuGraph(std::shared_ptr<Shared> shared, GpuHandle graph, GpuHandle executable)
      : shared_(std::move(shared)), graph_(graph), executable_(executable) {}
  ~GpuGraph() override {
    if (!shared_->broken.ok()) return;
    shared_->api->graph_exec_destroy(executable_);
    shared_->api->graph_destroy(graph_);
  }
  GpuHandle executable() const { return executable_; }

 private:
  std::shared_ptr<Shared> shared_;
  GpuHandle graph_;
  GpuHandle executable_;
};

std::uint64_t At(const DeviceBuffer& buffer, std::int64_t offset) {
  return buffer.address() + static_cast<std::uint64_t>(offset);
}

}  // namespace

GpuDevice::GpuDevice(std::unique_ptr<GpuApi> api, DeviceInfo info)
    : shared_(std::make_shared<Shared>()), api_(*api), info_(std::move(info)) {
  shared_->api = std::move(api);
}

absl::StatusOr<std::unique_ptr<GpuDevice>> GpuDevice::Open(std::unique_ptr<GpuApi> api, int index) {
  // Modules are loaded whole, so that no first launch loads code inside a timing or a capture.
  setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0);
  FETTLE_RETURN_IF_ERROR(api->Check(api->init(0), fmt::format("start {}", api->library())));
  FETTLE_ASSIGN_OR_RETURN(DeviceInfo info, DescribeGpu(*api, index));
  std::unique_ptr<GpuDevice> device(new GpuDevice(std::move(api), std::move(info)));
  FETTLE_RETURN_IF_ERROR(device->Start(index));
  return device;
}

absl::Status GpuDevice::Start(int index) {
  index_ = index;
  int ordinal = 0;
  FETTLE_RETURN_IF_ERROR(Check(api_.device_get(&ordinal, index), "find device"));
  if (api_.vendor() == Vendor::kNvidia) {
    GpuHandle context = nullptr;
    FETTLE_RETURN_IF_ERROR(Check(api_.context_retain(&context, ordinal), "create a context"));
    FETTLE_RETURN_IF_ERROR(Check(api_.context_set(context), "use the context"));
  } else {
    FETTLE_RETURN_IF_ERROR(Check(api_.device_set(ordinal), "use the device"));
  }
  FETTLE_RETURN_IF_ERROR(
      Check(api_.stream_create(&stream_, kNonBlockingStream), "create a stream"));
  shared_->stream = stream_;
  shared_->most_idle_bytes = std::min(kMostIdleBytes, info_.memory_bytes / 8);
  GpuPlace place{.uuid = info_.uuid};
  const GpuAttributes& at = api_.attributes();
  api_.device_attribute(&place.pci_domain, at.pci_domain, ordinal);
  api_.device_attribute(&place.pci_bus, at.pci_bus, ordinal);
  api_.device_attribute(&place.pci_device, at.pci_device, ordinal);
  monitor_ = api_.vendor() == Vendor::kNvidia ? MakeNvmlMonitor(place) : MakeAmdMonitor(place);
  if (const std::string source = monitor_->source(); !source.empty()) {
    info_.driver += fmt::format(", {}", source);
  }
  if (info_.partition.empty()) info_.partition = monitor_->partition();
  return absl::OkStatus();
}

GpuDevice::~GpuDevice() {
  if (!shared_->broken.ok()) return;
  kernels_.reset();
  digests_.reset();
  FreeIdleMemory();
  shared_->stream = nullptr;
  for (const GpuHandle event : shared_->idle_events) api_.event_destroy(event);
  shared_->idle_events.clear();
  if (stream_ != nullptr) api_.stream_destroy(stream_);
  if (api_.vendor() == Vendor::kNvidia && stream_ != nullptr) {
    int ordinal = 0;
    if (api_.device_get(&ordinal, index_) == kGpuSuccess) api_.context_release(ordinal);
  }
}

absl::Status GpuDevice::Check(int code, std::string_view doing) {
  absl::Status status = api_.Check(code, doing);
  if (absl::IsAborted(status) || absl::IsUnavailable(status)) shared_->broken = status;
  return status;
}

absl::StatusOr<std::unique_ptr<DeviceBuffer>> GpuDevice::Allocate(std::int64_t size_bytes) {
  FETTLE_RETURN_IF_ERROR(shared_->broken);
  if (size_bytes < 0) {
    return absl::InvalidArgumentError(fmt::format("allocate {} bytes on {}", size_bytes, info_.id));
  }
  const std::int64_t size = std::max<std::int64_t>(size_bytes, 1);
  if (const auto idle = shared_->idle_memory.find(size); idle != shared_->idle_memory.end()) {
    const std::uint64_t address = idle->second;
    shared_->idle_memory.erase(idle);
    shared_->idle_bytes -= size;
    return std::make_unique<GpuBuffer>(shared_, address, size_bytes);
  }
  std::uint64_t address = 0;
  const std::string doing = fmt::format("allocate {} bytes on {}", size_bytes, info_.id);
  absl::Status status = Check(api_.memory_alloc(&address, static_cast<std::size_t>(size)), doing);
  if (absl::IsResourceExhausted(status) && !shared_->idle_memory.empty()) {
    FreeIdleMemory();
    status = Check(api_.memory_alloc(&address, static_cast<std::size_t>(size)), doing);
  }
  FETTLE_RETURN_IF_ERROR(status);
  return std::make_unique<GpuBuffer>(shared_, address, size_bytes);
}

void GpuDevice::FreeIdleMemory() {
  for (const auto& [size, address] : shared_->idle_memory) api_.memory_free(address);
  shared_->idle_memory.clear();
  shared_->idle_bytes = 0;
}

absl::Status GpuDevice::CopyIn(DeviceBuffer& to, std::int64_t offset,
                               std::span<const std::uint8_t> from) {
  FETTLE_RETURN_IF_ERROR(
      CheckRange(to, offset, static_cast<std::int64_t>(from.size()), "copy to device"));
  // A copy from pageable memory waits for the stream inside the driver, without a deadline.
  FETTLE_RETURN_IF_ERROR(Synchronize(kDrainLimit));
  if (from.empty()) return absl::OkStatus();
  FETTLE_RETURN_IF_ERROR(
      Check(api_.copy_in(At(to, offset), from.data(), from.size(), stream_), "copy to device"));
  return Synchronize(kDrainLimit);
}

absl::Status GpuDevice::CopyOut(const DeviceBuffer& from, std::int64_t offset,
                                std::span<std::uint8_t> to) {
  FETTLE_RETURN_IF_ERROR(
      CheckRange(from, offset, static_cast<std::int64_t>(to.size()), "copy from device"));
  FETTLE_RETURN_IF_ERROR(Synchronize(kDrainLimit));
  if (to.empty()) return absl::OkStatus();
  FETTLE_RETURN_IF_ERROR(
      Check(api_.copy_out(to.data(), At(from, offset), to.size(), stream_), "copy from device"));
  return Synchronize(kDrainLimit);
}

absl::Status GpuDevice::CopyDevice(DeviceBuffer& to, std::int64_t to_offset,
                                   const DeviceBuffer& from, std::int64_t from_offset,
                                   std::int64_t size_bytes) {
  FETTLE_RETURN_IF_ERROR(shared_->broken);
  FETTLE_RETURN_IF_ERROR(CheckRange(to, to_offset, size_bytes, "copy within the device"));
  FETTLE_RETURN_IF_ERROR(CheckRange(from, from_offset, size_bytes, "copy within the device"));
  if (size_bytes == 0) return absl::OkStatus();
  return Check(api_.copy_device(At(to, to_offset), At(from, from_offset),
                                static_cast<std::size_t>(size_bytes), stream_),
               "copy within the device");
}

absl::Status GpuDevice::Fill(DeviceBuffer& to, std::int64_t offset, std::int64_t size_bytes,
                             std::uint8_t byte) {
  FETTLE_RETURN_IF_ERROR(shared_->broken);
  FETTLE_RETURN_IF_ERROR(CheckRange(to, offset, size_bytes, "fill device memory"));
  if (size_bytes == 0) return absl::OkStatus();
  return Check(api_.fill(At(to, offset), byte, static_cast<std::size_t>(size_bytes), stream_),
               "fill device memory");
}

absl::StatusOr<std::unique_ptr<DeviceModule>> GpuDevice::Load(
    std::string_view code_object, std::span<const std::string> symbols) {
  FETTLE_RETURN_IF_ERROR(shared_->broken);
  auto module = GpuModule::Load(shared_, code_object, symbols);
  if (!module.ok()) {
    if (absl::IsAborted(module.status())) shared_->broken = module.status();
    return module.status();
  }
  return *std::move(module);
}

absl::Status GpuDevice::Launch(DeviceModule& module, std::string_view symbol,
                               const LaunchConfig& config,
                               std::span<const KernelArgument> arguments) {
  FETTLE_RETURN_IF_ERROR(shared_->broken);
  FETTLE_ASSIGN_OR_RETURN(GpuFunction* const function,
                          static_cast<GpuModule&>(module).Find(symbol));
  FETTLE_RETURN_IF_ERROR(CheckGpuLaunch(info_, function->info, config, arguments));
  FETTLE_RETURN_IF_ERROR(OptInShared(api_, config.shared_bytes, *function));
  return Check(LaunchFunction(api_, *function, config, arguments, stream_),
               fmt::format("launch {}", symbol));
}

absl::Status GpuDevice::Synchronize(std::chrono::nanoseconds limit) {
  FETTLE_RETURN_IF_ERROR(shared_->broken);
  const auto start = std::chrono::steady_clock::now();
  constexpr std::chrono::microseconds kBusyPoll{200}, kSleep{50};
  while (true) {
    const int code = api_.stream_query(stream_);
    if (code != kGpuNotReady) return Check(code, "wait for the device");
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited > limit) break;
    if (waited > kBusyPoll) std::this_thread::sleep_for(kSleep);
  }
  shared_->broken = absl::DeadlineExceededError(
      fmt::format("{} did not finish within {} ms", info_.id,
                  std::chrono::duration_cast<std::chrono::milliseconds>(limit).count()));
  return shared_->broken;
}

absl::StatusOr<std::unique_ptr<DeviceEvent>> GpuDevice::Record() {
  FETTLE_RETURN_IF_ERROR(shared_->broken);
  GpuHandle handle = nullptr;
  if (!shared_->idle_events.empty()) {
    handle = shared_->idle_events.back();
    shared_->idle_events.pop_back();
  } else {
    FETTLE_RETURN_IF_ERROR(Check(api_.event_create(&handle, 0), "create an event"));
  }
  auto event = std::make_unique<GpuEvent>(shared_, handle);
  FETTLE_RETURN_IF_ERROR(Check(api_.event_record(handle, stream_), "record an event"));
  return event;
}

absl::StatusOr<double> GpuDevice::ElapsedNs(const DeviceEvent& from, const DeviceEvent& to) {
  FETTLE_RETURN_IF_ERROR(shared_->broken);
  float ms = 0;
  const int code = api_.event_elapsed(&ms, static_cast<const GpuEvent&>(from).handle(),
                                      static_cast<const GpuEvent&>(to).handle());
  if (code == kGpuNotReady) {
    return absl::FailedPreconditionError("elapsed time: the events are not reached; synchronize");
  }
  FETTLE_RETURN_IF_ERROR(Check(code, "elapsed time"));
  return static_cast<double>(ms) * 1e6;
}

absl::Status GpuDevice::BeginCapture() {
  FETTLE_RETURN_IF_ERROR(shared_->broken);
  if (api_.capture_begin == nullptr || api_.graph_instantiate == nullptr) {
    return absl::UnimplementedError(fmt::format("{} has no graphs", api_.library()));
  }
  return Check(api_.capture_begin(stream_, kCaptureRelaxed), "begin a capture");
}

absl::StatusOr<std::unique_ptr<DeviceGraph>> GpuDevice::EndCapture() {
  FETTLE_RETURN_IF_ERROR(shared_->broken);
  GpuHandle graph = nullptr, executable = nullptr;
  FETTLE_RETURN_IF_ERROR(Check(api_.capture_end(stream_, &graph), "end a capture"));
  const absl::Status made =
      Check(api_.graph_instantiate(&executable, graph, 0), "instantiate a graph");
  if (!made.ok()) {
    api_.graph_destroy(graph);
    return made;
  }
  return std::make_unique<GpuGraph>(shared_, graph, executable);
}

absl::Status GpuDevice::Replay(DeviceGraph& graph) {
  FETTLE_RETURN_IF_ERROR(shared_->broken);
  return Check(api_.graph_launch(static_cast<GpuGraph&>(graph).executable(), stream_),
               "replay a graph");
}

absl::Status GpuDevice::LoadOwnKernels() {
  FETTLE_ASSIGN_OR_RETURN(const std::vector<std::string> images, OwnKernelImages(info_.target));
  const std::array symbols{std::string(kSpinSymbol), std::string(kDigestSymbol),
                           std::string(kDrawSymbol)};
  absl::Status status;
  for (const std::string& image : images) {
    absl::StatusOr<std::unique_ptr<DeviceModule>> loaded = Load(image, symbols);
    status = loaded.status();
    if (loaded.ok()) kernels_ = *std::move(loaded);
    if (loaded.ok() || !shared_->broken.ok()) break;
  }
  return status;
}

absl::Status GpuDevice::LaunchOwn(std::string_view symbol, const LaunchConfig& config,
                                  std::span<const std::uint64_t> values) {
  if (kernels_ == nullptr) FETTLE_RETURN_IF_ERROR(LoadOwnKernels());
  std::vector<KernelArgument> arguments(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    arguments[i].resize(sizeof values[i]);
    std::memcpy(arguments[i].data(), &values[i], sizeof values[i]);
  }
  return Launch(*kernels_, symbol, config, arguments);
}

absl::Status GpuDevice::Spin(std::chrono::nanoseconds duration) {
  const std::array values{static_cast<std::uint64_t>(duration.count()), std::uint64_t{0}};
  return LaunchOwn(kSpinSymbol, LaunchConfig{}, values);
}

absl::StatusOr<std::vector<DeviceDigest>> GpuDevice::Digests(std::span<const DeviceRange> ranges,
                                                             std::uint64_t key,
                                                             std::chrono::nanoseconds limit) {
  constexpr std::int64_t kSize = sizeof(DeviceDigest);
  for (const DeviceRange& range : ranges) {
    if (range.offset < 0 || range.size_bytes < 0 ||
        range.offset > range.buffer->size_bytes() - range.size_bytes) {
      return absl::InvalidArgumentError(fmt::format("digest {} bytes at {} of a buffer of {}",
                                                    range.size_bytes, range.offset,
                                                    range.buffer->size_bytes()));
    }
  }
  if (digests_ == nullptr) {
    FETTLE_ASSIGN_OR_RETURN(digests_, Allocate(kSize * std::int64_t{kDigestsAtOnce}));
  }
  std::vector<DeviceDigest> digests(ranges.size());
  for (std::size_t first = 0; first < ranges.size(); first += kDigestsAtOnce) {
    const std::size_t count = std::min(kDigestsAtOnce, ranges.size() - first);
    const auto bytes = static_cast<std::int64_t>(count) * kSize;
    FETTLE_RETURN_IF_ERROR(Fill(*digests_, 0, bytes, 0));
    for (std::size_t i = 0; i < count; ++i) {
      const DeviceRange& range = ranges[first + i];
      LaunchConfig config;
      config.grid[0] =
          std::clamp<std::int64_t>(range.size_bytes / kBytesPerDigestBlock, 1, kMostDigestBlocks);
      config.block[0] = kDigestThreads;
      const std::array values{range.buffer->address() + static_cast<std::uint64_t>(range.offset),
                              static_cast<std::uint64_t>(range.size_bytes), key,
                              static_cast<std::uint64_t>(config.grid[0]),
                              digests_->address() + i * sizeof(DeviceDigest)};
      FETTLE_RETURN_IF_ERROR(LaunchOwn(kDigestSymbol, config, values));
    }
    FETTLE_RETURN_IF_ERROR(Synchronize(limit));
    FETTLE_RETURN_IF_ERROR(CopyOut(
        *digests_, 0,
        {reinterpret_cast<std::uint8_t*>(&digests[first]), static_cast<std::size_t>(bytes)}));
  }
  return digests;
}

absl::Status GpuDevice::Draw(DeviceBuffer& to, std::int64_t count, const DrawnFill& fill) {
  const std::optional<std::uint64_t> format = DrawFormat(fill.dtype);
  if (!format || IsInteger(fill.dtype) != (fill.kind == DrawnFill::Kind::kBelow)) {
    return absl::UnimplementedError(
        fmt::format("no kernel draws such values of {}", DTypeName(fill.dtype)));
  }
  FETTLE_RETURN_IF_ERROR(CheckRange(to, 0, StorageBytes(fill.dtype, count), "draw values"));
  if (count == 0) return absl::OkStatus();
  LaunchConfig config;
  config.grid[0] =
      std::clamp<std::int64_t>((count + kDrawThreads - 1) / kDrawThreads, 1, kMostDrawBlocks);
  config.block[0] = kDrawThreads;
  const std::array values{to.address(),
                          static_cast<std::uint64_t>(count),
                          *format,
                          static_cast<std::uint64_t>(fill.kind),
                          std::bit_cast<std::uint64_t>(fill.a),
                          std::bit_cast<std::uint64_t>(fill.b),
                          static_cast<std::uint64_t>(fill.low),
                          fill.span,
                          fill.seed,
                          static_cast<std::uint64_t>(config.grid[0])};
  return LaunchOwn(kDrawSymbol, config, values);
}

absl::Status GpuDevice::ResetPersistingCache() {
  FETTLE_RETURN_IF_ERROR(shared_->broken);
  if (api_.reset_persisting == nullptr) return absl::OkStatus();
  const int code = api_.reset_persisting();
  // Devices without persisting lines, and MIG instances, refuse: there is nothing to reset.
  return absl::IsInvalidArgument(api_.Check(code, "")) ? absl::OkStatus()
                                                       : Check(code, "reset persisting L2 lines");
}

}  // namespace fettle
