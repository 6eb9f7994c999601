// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace fettle {

// Where a device sits and what it is called, as its driver says.
struct GpuPlace {
  std::string uuid;  // 36 characters, without a prefix.
  int pci_domain = 0, pci_bus = 0, pci_device = 0;
};

// Reads clocks, power, temperature and throttling of one device. Not thread-safe.
class GpuMonitor {
 public:
  virtual ~GpuMonitor() = default;
  // Zero for whatever is unknown.
  virtual DeviceState State() = 0;
  // "NVML 580.82.07", "hwmon"; empty when nothing was found.
  virtual std::string source() const = 0;
  // "CPX/NPS4" where the board says how it is partitioned, else empty.
  virtual std::string partition() const { return {}; }

 protected:
  GpuMonitor() = default;
  GpuMonitor(const GpuMonitor&) = default;
  GpuMonitor& operator=(const GpuMonitor&) = default;
};

// NVML by dlopen. A monitor that knows nothing when NVML or the device is not found.
std::unique_ptr<GpuMonitor> MakeNvmlMonitor(const GpuPlace& place);

// amd_smi, then ROCm SMI, by dlopen, then the kernel driver's own hwmon files.
std::unique_ptr<GpuMonitor> MakeAmdMonitor(const GpuPlace& place);

// "SW_POWER_CAP|HW_SLOWDOWN": NVML's clock event reasons that are set; idle is left out.
std::string NvmlReasonNames(unsigned long long reasons);

// Whether these reasons spoil a measurement: the board slowed down because of heat, a power brake
// or a hardware limit. The ordinary power cap does not count: it holds for whole runs of a heavy
// kernel, and interleaving exposes both sides to it alike.
bool NvmlReasonsThrottle(unsigned long long reasons);

}  // namespace fettle
