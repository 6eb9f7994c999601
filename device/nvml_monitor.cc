// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <dlfcn.h>
#include <fmt/format.h>

#include "device/gpu_monitor.h"

namespace fettle {
namespace {

using NvmlDevice = void*;

constexpr int kClockSm = 1, kClockMemory = 2, kTemperatureGpu = 0;

struct Reason {
  unsigned long long bit;
  const char* name;
  bool throttles;
};
constexpr std::array kReasons{
    Reason{0x2, "APPLICATIONS_CLOCKS", false}, Reason{0x4, "SW_POWER_CAP", false},
    Reason{0x8, "HW_SLOWDOWN", true},          Reason{0x10, "SYNC_BOOST", false},
    Reason{0x20, "SW_THERMAL_SLOWDOWN", true}, Reason{0x40, "HW_THERMAL_SLOWDOWN", true},
    Reason{0x80, "HW_POWER_BRAKE", true},      Reason{0x100, "DISPLAY_CLOCKS", false},
};

struct Nvml {
  int (*init)() = nullptr;
  int (*by_uuid)(const char*, NvmlDevice*) = nullptr;
  int (*by_pci)(const char*, NvmlDevice*) = nullptr;
  int (*parent)(NvmlDevice, NvmlDevice*) = nullptr;
  int (*is_mig)(NvmlDevice, unsigned*) = nullptr;
  int (*clock)(NvmlDevice, int, unsigned*) = nullptr;
  int (*power_mw)(NvmlDevice, unsigned*) = nullptr;
  int (*temperature)(NvmlDevice, int, unsigned*) = nullptr;
  int (*reasons)(NvmlDevice, unsigned long long*) = nullptr;
  int (*version)(char*, unsigned) = nullptr;
};

template <typename F>
void Bind(F& slot, void* library, const char* name) {
  slot = reinterpret_cast<F>(dlsym(library, name));
}

bool LoadNvml(Nvml& nvml) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  Bind(nvml.init, library, "nvmlInit_v2");
  Bind(nvml.by_uuid, library, "nvmlDeviceGetHandleByUUID");
  Bind(nvml.by_pci, library, "nvmlDeviceGetHandleByPciBusId_v2");
  Bind(nvml.parent, library, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
  Bind(nvml.is_mig, library, "nvmlDeviceIsMigDeviceHandle");
  Bind(nvml.clock, library, "nvmlDeviceGetClockInfo");
  Bind(nvml.power_mw, library, "nvmlDeviceGetPowerUsage");
  Bind(nvml.temperature, library, "nvmlDeviceGetTemperature");
  Bind(nvml.reasons, library, "nvmlDeviceGetCurrentClocksEventReasons");
  if (nvml.reasons == nullptr) {
    Bind(nvml.reasons, library, "nvmlDeviceGetCurrentClocksThrottleReasons");
  }
  Bind(nvml.version, library, "nvmlSystemGetDriverVersion");
  return nvml.init != nullptr && nvml.init() == 0;
}

// The board's handle: of a MIG instance that of its parent, which has the sensors.
NvmlDevice FindBoard(const Nvml& nvml, const GpuPlace& place) {
  NvmlDevice device = nullptr;
  const auto by_uuid = [&](const char* prefix) {
    return nvml.by_uuid != nullptr && nvml.by_uuid((prefix + place.uuid).c_str(), &device) == 0;
  };
  const auto by_pci = [&] {
    const std::string bus =
        fmt::format("{:08x}:{:02x}:{:02x}.0", place.pci_domain, place.pci_bus, place.pci_device);
    return nvml.by_pci != nullptr && nvml.by_pci(bus.c_str(), &device) == 0;
  };
  if (!by_uuid("GPU-") && !by_uuid("MIG-") && !by_pci()) return nullptr;
  unsigned mig = 0;
  if (nvml.is_mig != nullptr && nvml.parent != nullptr && nvml.is_mig(device, &mig) == 0 &&
      mig != 0) {
    NvmlDevice board = nullptr;
    if (nvml.parent(device, &board) == 0) return board;
  }
  return device;
}

class NvmlMonitor final : public GpuMonitor {
 public:
  explicit NvmlMonitor(const GpuPlace& place) {
    if (!LoadNvml(nvml_)) return;
    device_ = FindBoard(nvml_, place);
    std::array<char, 96> version{};
    if (nvml_.version != nullptr &&
        nvml_.version(version.data(), static_cast<unsigned>(version.size())) == 0) {
      source_ = fmt::format("NVML {}", version.data());
    }
  }

  std::string source() const override { return device_ == nullptr ? "" : source_; }

  DeviceState State() override {
    DeviceState state;
    if (device_ == nullptr) return state;
    unsigned value = 0;
    if (nvml_.clock != nullptr) {
      if (nvml_.clock(device_, kClockSm, &value) == 0) state.clock_mhz = value;
      if (nvml_.clock(device_, kClockMemory, &value) == 0) state.memory_clock_mhz = value;
    }
    if (nvml_.power_mw != nullptr && nvml_.power_mw(device_, &value) == 0) {
      state.power_w = value / 1000.0;
    }
    if (nvml_.temperature != nullptr && nvml_.temperature(device_, kTemperatureGpu, &value) == 0) {
      state.temperature_c = value;
    }
    unsigned long long reasons = 0;
    if (nvml_.reasons != nullptr && nvml_.reasons(device_, &reasons) == 0) {
      state.throttled = NvmlReasonsThrottle(reasons);
      state.throttle_reason = NvmlReasonNames(reasons);
    }
    return state;
  }

 private:
  Nvml nvml_;
  NvmlDevice device_ = nullptr;
  std::string source_;
};

}  // namespace

std::string NvmlReasonNames(unsigned long long reasons) {
  std::string names;
  for (const Reason& reason : kReasons) {
    if ((reasons & reason.bit) == 0) continue;
    names += fmt::format("{}{}", names.empty() ? "" : "|", reason.name);
  }
  return names;
}

bool NvmlReasonsThrottle(unsigned long long reasons) {
  for (const Reason& reason : kReasons) {
    if (reason.throttles && (reasons & reason.bit) != 0) return true;
  }
  return false;
}

std::unique_ptr<GpuMonitor> MakeNvmlMonitor(const GpuPlace& place) {
  return std::make_unique<NvmlMonitor>(place);
}

}  // namespace fettle
