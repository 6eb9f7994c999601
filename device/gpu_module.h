// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/gpu_device.h"

namespace fettle {

struct GpuFunction {
  GpuHandle handle = nullptr;
  FunctionInfo info;
  std::int64_t dynamic_shared_opt_in = 0;  // Dynamic shared bytes asked for so far.
  bool large_cluster = false;              // More than 8 blocks in a cluster was asked for.
};

class GpuModule final : public DeviceModule {
 public:
  // kInvalidArgument: not an image for this device; kNotFound: one of `symbols` is not in it.
  static absl::StatusOr<std::unique_ptr<GpuModule>> Load(std::shared_ptr<GpuDevice::Shared> shared,
                                                         std::string_view image,
                                                         std::span<const std::string> symbols);
  ~GpuModule() override;

  GpuModule(const GpuModule&) = delete;
  GpuModule& operator=(const GpuModule&) = delete;

  absl::StatusOr<FunctionInfo> Function(std::string_view symbol) override;
  std::vector<std::string> WritableGlobals() override { return writable_globals_; }
  absl::StatusOr<std::int64_t> SaveState() override;
  absl::Status RestoreState() override;

  // Valid while the module lives.
  absl::StatusOr<GpuFunction*> Find(std::string_view symbol);

 private:
  explicit GpuModule(std::shared_ptr<GpuDevice::Shared> shared) : shared_(std::move(shared)) {}
  void FreeState();
  absl::Status CopyState();  // What state_ says, to images of their own.

  std::shared_ptr<GpuDevice::Shared> shared_;
  GpuHandle handle_ = nullptr;
  std::map<std::string, GpuFunction, std::less<>> functions_;
  // AMD: parameter sizes per kernel from the code object's own metadata.
  std::map<std::string, std::vector<std::int64_t>, std::less<>> parameter_bytes_;
  std::vector<std::string> writable_globals_;
  struct SavedSpan {
    std::uint64_t address = 0, image = 0;  // In device memory; image 0: none yet.
    std::size_t size = 0;
  };
  std::vector<SavedSpan> state_;  // By address, disjoint.
};

// Lets `function` use `bytes` of dynamic shared memory where the vendor wants that announced.
absl::Status OptInShared(const GpuApi& api, std::int64_t bytes, GpuFunction& function);

// Enqueues a checked launch; returns the vendor's code.
int LaunchFunction(const GpuApi& api, GpuFunction& function, const LaunchConfig& config,
                   std::span<const KernelArgument> arguments, GpuHandle stream);

}  // namespace fettle
