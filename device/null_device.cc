// SPDX-License-Identifier: Apache-2.0
#include "device/null_device.h"

#include <cstring>

#include "core/status_macros.h"
#include "device/launch_check.h"

namespace fettle {
namespace {

class NullBuffer final : public DeviceBuffer {
 public:
  explicit NullBuffer(std::int64_t size_bytes)
      : storage_(static_cast<std::size_t>(size_bytes) + 256), size_bytes_(size_bytes) {}
  std::uint64_t address() const override {
    return (reinterpret_cast<std::uintptr_t>(storage_.data()) + 255) & ~std::uint64_t{255};
  }
  std::int64_t size_bytes() const override { return size_bytes_; }
  std::uint8_t* bytes() const { return reinterpret_cast<std::uint8_t*>(address()); }

 private:
  std::vector<std::uint8_t> storage_;
  std::int64_t size_bytes_;
};

class NullModule final : public DeviceModule {
 public:
  explicit NullModule(std::vector<std::string> symbols) : symbols_(std::move(symbols)) {}
  absl::StatusOr<FunctionInfo> Function(std::string_view symbol) override {
    for (const std::string& known : symbols_) {
      if (known == symbol) return FunctionInfo{.symbol = known, .max_threads = 1024};
    }
    return absl::NotFoundError(fmt::format("no function {} in the module", symbol));
  }
  std::vector<std::string> WritableGlobals() override { return {}; }

 private:
  std::vector<std::string> symbols_;
};

struct NullEvent final : DeviceEvent {
  double ns = 0;
};

struct NullGraph final : DeviceGraph {
  int launches = 0;
};

std::uint8_t* BytesOf(const DeviceBuffer& buffer) {
  return static_cast<const NullBuffer&>(buffer).bytes();
}

class NullDevice final : public Device {
 public:
  NullDevice() {
    info_.id = "null";
    info_.model = "null device";
    info_.driver = "none";
    info_.target.name = "cpu";
    info_.target.lds = info_.target.lds_static = 65536;
    info_.target.cus = 1;
    info_.memory_bytes = std::int64_t{1} << 30;
  }
  const DeviceInfo& info() const override { return info_; }
  DeviceState State() override { return {}; }

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(std::int64_t size_bytes) override {
    if (size_bytes < 0) return absl::InvalidArgumentError("allocate: negative size");
    if (size_bytes > info_.memory_bytes) {
      return absl::ResourceExhaustedError(
          fmt::format("allocate {} bytes: the null device has {}", size_bytes, info_.memory_bytes));
    }
    return std::make_unique<NullBuffer>(size_bytes);
  }
  absl::Status CopyIn(DeviceBuffer& to, std::int64_t offset,
                      std::span<const std::uint8_t> from) override {
    FETTLE_RETURN_IF_ERROR(
        CheckRange(to, offset, static_cast<std::int64_t>(from.size()), "copy in"));
    if (!from.empty()) std::memcpy(BytesOf(to) + offset, from.data(), from.size());
    return absl::OkStatus();
  }
  absl::Status CopyOut(const DeviceBuffer& from, std::int64_t offset,
                       std::span<std::uint8_t> to) override {
    FETTLE_RETURN_IF_ERROR(
        CheckRange(from, offset, static_cast<std::int64_t>(to.size()), "copy out"));
    if (!to.empty()) std::memcpy(to.data(), BytesOf(from) + offset, to.size());
    return absl::OkStatus();
  }
  absl::Status CopyDevice(DeviceBuffer& to, std::int64_t to_offset, const DeviceBuffer& from,
                          std::int64_t from_offset, std::int64_t size_bytes) override {
    FETTLE_RETURN_IF_ERROR(CheckRange(to, to_offset, size_bytes, "copy to"));
    FETTLE_RETURN_IF_ERROR(CheckRange(from, from_offset, size_bytes, "copy from"));
    std::memmove(BytesOf(to) + to_offset, BytesOf(from) + from_offset,
                 static_cast<std::size_t>(size_bytes));
    return absl::OkStatus();
  }
  absl::Status Fill(DeviceBuffer& to, std::int64_t offset, std::int64_t size_bytes,
                    std::uint8_t byte) override {
    FETTLE_RETURN_IF_ERROR(CheckRange(to, offset, size_bytes, "fill"));
    std::memset(BytesOf(to) + offset, byte, static_cast<std::size_t>(size_bytes));
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<DeviceModule>> Load(
      std::string_view code_object, std::span<const std::string> symbols) override {
    if (code_object.empty()) return absl::InvalidArgumentError("load: empty code object");
    return std::make_unique<NullModule>(std::vector<std::string>(symbols.begin(), symbols.end()));
  }
  absl::Status Launch(DeviceModule& module, std::string_view symbol, const LaunchConfig& config,
                      std::span<const KernelArgument> /*arguments*/) override {
    FETTLE_ASSIGN_OR_RETURN(const FunctionInfo function, module.Function(symbol));
    FETTLE_RETURN_IF_ERROR(CheckLaunch(config, info_.target, function.static_shared_bytes));
    if (capture_ != nullptr) {
      ++capture_->launches;
    } else {
      now_ns_ += kNullLaunchNs;
    }
    return absl::OkStatus();
  }
  absl::Status Synchronize(std::chrono::nanoseconds /*limit*/) override { return absl::OkStatus(); }

  absl::StatusOr<std::unique_ptr<DeviceEvent>> Record() override {
    auto event = std::make_unique<NullEvent>();
    event->ns = now_ns_;
    return event;
  }
  absl::StatusOr<double> ElapsedNs(const DeviceEvent& from, const DeviceEvent& to) override {
    return static_cast<const NullEvent&>(to).ns - static_cast<const NullEvent&>(from).ns;
  }

  absl::Status BeginCapture() override {
    if (capture_ != nullptr) return absl::FailedPreconditionError("a capture is already running");
    capture_ = std::make_unique<NullGraph>();
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<DeviceGraph>> EndCapture() override {
    if (capture_ == nullptr) return absl::FailedPreconditionError("no capture is running");
    return std::move(capture_);
  }
  absl::Status Replay(DeviceGraph& graph) override {
    now_ns_ += kNullLaunchNs * static_cast<NullGraph&>(graph).launches;
    return absl::OkStatus();
  }
  absl::Status Spin(std::chrono::nanoseconds duration) override {
    now_ns_ += static_cast<double>(duration.count());
    return absl::OkStatus();
  }
  absl::Status ResetPersistingCache() override { return absl::OkStatus(); }
  std::vector<CheckFinding> TakeFindings() override { return {}; }

 private:
  DeviceInfo info_;
  double now_ns_ = 0;
  std::unique_ptr<NullGraph> capture_;
};

}  // namespace

std::unique_ptr<Device> MakeNullDevice() { return std::make_unique<NullDevice>(); }

}  // namespace fettle
