// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"

namespace fettle {

// A device whose memory is the process's own and whose kernels are C++ functions registered by
// symbol: verification can be tested without a compiler. A module's code object is ignored; its
// symbols must be registered.
class HostDevice final : public Device {
 public:
  // The launch as a whole: grid, block and the raw arguments.
  using Kernel = std::function<absl::Status(const LaunchConfig&, std::span<const KernelArgument>)>;

  // `as_gpu`: says that it is one and takes digests, so that outputs, inputs and guards are handled
  // as on a GPU.
  explicit HostDevice(bool as_gpu = false);
  void Register(std::string symbol, Kernel kernel) {
    kernels_[std::move(symbol)] = std::move(kernel);
  }
  // Memory that modules loaded from now on keep their variables in.
  void set_state(std::span<std::uint8_t> state) { state_ = state; }
  int launches() const { return launches_; }
  // How often modules brought their variables back.
  int restored() const { return restored_; }
  // Stands in for Draw, which this device has not.
  using Drawer = std::function<absl::Status(DeviceBuffer&, std::int64_t, const DrawnFill&)>;
  void set_draw(Drawer draw) { draw_ = std::move(draw); }

  const DeviceInfo& info() const override { return info_; }
  DeviceState State() override { return {}; }
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(std::int64_t size_bytes) override;
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> AllocatePageEnd(std::int64_t size_bytes,
                                                                std::int64_t align) override;
  absl::Status CopyIn(DeviceBuffer& to, std::int64_t offset,
                      std::span<const std::uint8_t> from) override;
  absl::Status CopyOut(const DeviceBuffer& from, std::int64_t offset,
                       std::span<std::uint8_t> to) override;
  absl::Status CopyDevice(DeviceBuffer& to, std::int64_t to_offset, const DeviceBuffer& from,
                          std::int64_t from_offset, std::int64_t size_bytes) override;
  absl::Status Fill(DeviceBuffer& to, std::int64_t offset, std::int64_t size_bytes,
                    std::uint8_t byte) override;
  absl::StatusOr<std::vector<DeviceDigest>> Digests(std::span<const DeviceRange> ranges,
                                                    std::uint64_t key,
                                                    std::chrono::nanoseconds limit) override;
  int digests() const { return digests_; }  // Calls so far.
  absl::Status Draw(DeviceBuffer& to, std::int64_t count, const DrawnFill& fill) override {
    return draw_ ? draw_(to, count, fill) : Device::Draw(to, count, fill);
  }
  absl::StatusOr<std::unique_ptr<DeviceModule>> Load(std::string_view code_object,
                                                     std::span<const std::string> symbols) override;
  absl::Status Launch(DeviceModule& module, std::string_view symbol, const LaunchConfig& config,
                      std::span<const KernelArgument> arguments) override;
  absl::Status Synchronize(std::chrono::nanoseconds limit) override;
  absl::StatusOr<std::unique_ptr<DeviceEvent>> Record() override;
  absl::StatusOr<double> ElapsedNs(const DeviceEvent& from, const DeviceEvent& to) override;
  absl::Status BeginCapture() override { return absl::UnimplementedError("no graphs"); }
  absl::StatusOr<std::unique_ptr<DeviceGraph>> EndCapture() override {
    return std::unique_ptr<DeviceGraph>();
  }
  absl::Status Replay(DeviceGraph&) override { return absl::UnimplementedError("no graphs"); }
  absl::Status Spin(std::chrono::nanoseconds) override { return absl::OkStatus(); }
  absl::Status ResetPersistingCache() override { return absl::OkStatus(); }
  std::vector<CheckFinding> TakeFindings() override { return std::exchange(findings_, {}); }

  void AddFinding(CheckFinding finding) { findings_.push_back(std::move(finding)); }

 private:
  DeviceInfo info_;
  std::map<std::string, Kernel, std::less<>> kernels_;
  std::vector<CheckFinding> findings_;
  std::span<std::uint8_t> state_;
  Drawer draw_;
  int launches_ = 0, restored_ = 0;
  int digests_ = 0;
  bool takes_digests_ = false;
};

// Argument `i` as a value or address.
template <typename T>
T ArgumentAs(std::span<const KernelArgument> arguments, std::size_t i) {
  T value;
  std::memcpy(&value, arguments[i].data(), sizeof(T));
  return value;
}

}  // namespace fettle
