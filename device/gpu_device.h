// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/gpu_api.h"
#include "device/gpu_monitor.h"

namespace fettle {

// What the driver says of its device number `index`; opens no context. kUnavailable: no such
// device.
absl::StatusOr<DeviceInfo> DescribeGpu(const GpuApi& api, int index);

// Everything the driver has: "cuda:0", "cuda:1", ... kUnavailable: no device, or the driver does
// not start.
absl::StatusOr<std::vector<DeviceInfo>> ListGpus(const GpuApi& api);

// A launch against the device's and the function's limits, so that none fails silently: what
// launch_check.h asks, and the function's own thread limit, clusters and arguments.
// kInvalidArgument names the limit.
absl::Status CheckGpuLaunch(const DeviceInfo& device, const FunctionInfo& function,
                            const LaunchConfig& config, std::span<const KernelArgument> arguments);

// A GPU under either driver API. One stream; its own primary context, released at the end. After a
// device fault or a passed deadline every call returns that error and nothing is freed, because
// freeing would wait for the device: end the process.
class GpuDevice final : public Device {
 public:
  // Creates the context (about 0.1 to 0.3 s). kUnavailable: no such device.
  static absl::StatusOr<std::unique_ptr<GpuDevice>> Open(std::unique_ptr<GpuApi> api, int index);
  ~GpuDevice() override;

  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  const DeviceInfo& info() const override { return info_; }
  DeviceState State() override { return monitor_->State(); }

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(std::int64_t size_bytes) override;
  absl::Status CopyIn(DeviceBuffer& to, std::int64_t offset,
                      std::span<const std::uint8_t> from) override;
  absl::Status CopyOut(const DeviceBuffer& from, std::int64_t offset,
                       std::span<std::uint8_t> to) override;
  absl::Status CopyDevice(DeviceBuffer& to, std::int64_t to_offset, const DeviceBuffer& from,
                          std::int64_t from_offset, std::int64_t size_bytes) override;
  absl::Status Fill(DeviceBuffer& to, std::int64_t offset, std::int64_t size_bytes,
                    std::uint8_t byte) override;

  absl::StatusOr<std::unique_ptr<DeviceModule>> Load(std::string_view code_object,
                                                     std::span<const std::string> symbols) override;
  absl::Status Launch(DeviceModule& module, std::string_view symbol, const LaunchConfig& config,
                      std::span<const KernelArgument> arguments) override;
  absl::Status Synchronize(std::chrono::nanoseconds limit) override;

  absl::StatusOr<std::unique_ptr<DeviceEvent>> Record() override;
  absl::StatusOr<double> ElapsedNs(const DeviceEvent& from, const DeviceEvent& to) override;

  absl::Status BeginCapture() override;
  absl::StatusOr<std::unique_ptr<DeviceGraph>> EndCapture() override;
  absl::Status Replay(DeviceGraph& graph) override;

  absl::Status Spin(std::chrono::nanoseconds duration) override;
  absl::StatusOr<std::vector<DeviceDigest>> Digests(std::span<const DeviceRange> ranges,
                                                    std::uint64_t key,
                                                    std::chrono::nanoseconds limit) override;
  absl::Status Draw(DeviceBuffer& to, std::int64_t count, const DrawnFill& fill) override;
  absl::Status ResetPersistingCache() override;
  std::vector<CheckFinding> TakeFindings() override { return {}; }

  // What buffers, modules, events and graphs need of the device while they live.
  struct Shared {
    std::unique_ptr<GpuApi> api;
    absl::Status broken;                 // The fault that made the device unusable.
    std::vector<GpuHandle> idle_events;  // Kept for reuse.
    // Freed memory, kept for reuse by size, because the driver takes longer to free and allocate
    // than a small kernel runs. Its content was overwritten: no result outlives its buffer.
    std::multimap<std::int64_t, std::uint64_t> idle_memory;
    std::int64_t idle_bytes = 0, most_idle_bytes = 0;
    GpuHandle stream = nullptr;
  };

 private:
  GpuDevice(std::unique_ptr<GpuApi> api, DeviceInfo info);

  absl::Status Start(int index);
  void FreeIdleMemory();
  // As GpuApi::Check, and remembers a fault.
  absl::Status Check(int code, std::string_view doing);

  std::shared_ptr<Shared> shared_;
  const GpuApi& api_;
  DeviceInfo info_;
  int index_ = 0;
  GpuHandle stream_ = nullptr;
  std::unique_ptr<GpuMonitor> monitor_;
  absl::Status LoadOwnKernels();
  // Of the values, one kernel argument each.
  absl::Status LaunchOwn(std::string_view symbol, const LaunchConfig& config,
                         std::span<const std::uint64_t> values);

  std::unique_ptr<DeviceModule> kernels_;  // fettle's own.
  std::unique_ptr<DeviceBuffer> digests_;  // Of kDigestsAtOnce ranges.
};

}  // namespace fettle
