// SPDX-License-Identifier: Apache-2.0
#include "worker/open_device.h"

#include <fmt/format.h>

#include "core/status_macros.h"
#include "device/cpu_device.h"
#include "device/gpu_registry.h"
#include "device/null_device.h"

namespace fettle {

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& id) {
  if (id == "cpu") {
    FETTLE_ASSIGN_OR_RETURN(std::unique_ptr<CpuDevice> device,
                            CpuDevice::Create({.launch_limit = std::chrono::nanoseconds(0)}));
    return device;
  }
  if (id == "null") return MakeNullDevice();
  if (id.starts_with("cuda:") || id.starts_with("hip:")) return OpenGpu(id);
  return absl::InvalidArgumentError(
      fmt::format("open device \"{}\": write cpu, cuda:N or hip:N", id));
}

}  // namespace fettle
