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
// machine; only those that exist.
std::vector<std::string> GpuDeviceNodes();

}  // namespace fettle
