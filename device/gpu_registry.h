// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

#include "device/device.h"

namespace fettle {

// What one vendor's driver has on this machine.
struct GpuInventory {
  std::string kind;  // "cuda", "hip".
  std::vector<DeviceInfo> devices;
  absl::Status status;  // Why there are none: kUnavailable, with the reason.
};

// Asks both vendors' drivers. Opens no context, but loads the drivers into this process.
std::vector<GpuInventory> FindGpus();

// Opens "cuda:0", "hip:1". kInvalidArgument: not such an id; kUnavailable: no driver or device.
absl::StatusOr<std::unique_ptr<Device>> OpenGpu(std::string_view id);

// Files under /dev, /proc and /sys that a sandboxed process needs to reach the GPUs of this
// machine; only those that exist. `root` stands before every path it looks at (of tests).
std::vector<std::string> GpuDeviceNodes(const std::string& root = "");

// Whether there are nodes of more than one GPU, so that one of them must be hidden.
bool SeveralGpus(const std::string& root = "");

// What a sandboxed process needs to reach one GPU and no other.
struct GpuView {
  std::vector<std::string> nodes;        // As GpuDeviceNodes.
  std::vector<std::string> environment;  // "CUDA_VISIBLE_DEVICES=GPU-...", or none.
  std::string id;                        // The device where nothing else can be seen: "cuda:0".
};
// Of a device that FindGpus gave. Where it is the only one, or which nodes are its own cannot be
// told (a partition of a GPU, files that are missing), this is everything under its own id.
GpuView GpuViewOf(const DeviceInfo& device, const std::string& root = "");

}  // namespace fettle
