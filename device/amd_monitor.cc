// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include <dlfcn.h>
#include <fmt/format.h>

#include "device/gpu_monitor.h"

namespace fettle {
namespace {

template <typename F>
void Bind(F& slot, void* library, const char* name) {
  slot = reinterpret_cast<F>(dlsym(library, name));
}

std::string ReadLine(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::optional<double> ReadNumber(const std::filesystem::path& path) {
  const std::string line = ReadLine(path);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc() || end == line.data()) return std::nullopt;
  return static_cast<double>(value);
}

// What the kernel driver itself shows of a board.
class Hwmon {
 public:
  explicit Hwmon(const GpuPlace& place)
      : board_(fmt::format("/sys/bus/pci/devices/{:04x}:{:02x}:{:02x}.0", place.pci_domain,
                           place.pci_bus, place.pci_device)) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(board_ / "hwmon", error)) {
      sensors_ = entry.path();
      break;
    }
  }

  bool found() const { return !sensors_.empty(); }

  // Puts what the board's files say over `state`.
  void Read(DeviceState& state) const {
    if (!found()) return;
    if (const auto hz = ReadNumber(sensors_ / "freq1_input")) state.clock_mhz = *hz / 1e6;
    if (const auto hz = ReadNumber(sensors_ / "freq2_input")) state.memory_clock_mhz = *hz / 1e6;
    for (const char* name : {"power1_average", "power1_input"}) {
      if (const auto uw = ReadNumber(sensors_ / name)) state.power_w = *uw / 1e6;
    }
    for (const char* name : {"temp1_input", "temp2_input"}) {  // Edge, then junction.
      if (const auto mc = ReadNumber(sensors_ / name)) state.temperature_c = *mc / 1e3;
    }
  }

  std::string Partition() const {
    const std::string compute = ReadLine(board_ / "current_compute_partition");
    const std::string memory = ReadLine(board_ / "current_memory_partition");
    if (compute.empty()) return memory;
    return memory.empty() ? compute : fmt::format("{}/{}", compute, memory);
  }

 private:
  std::filesystem::path board_;
  std::filesystem::path sensors_;
};

// The calls of amd_smi whose form has not changed between releases.
class AmdSmi {
 public:
  explicit AmdSmi(const GpuPlace& place) {
    constexpr std::uint64_t kGpus = 2;
    void* library = dlopen("libamd_smi.so", RTLD_NOW | RTLD_LOCAL);
    for (const char* name : {"libamd_smi.so.26", "libamd_smi.so.25", "libamd_smi.so.24"}) {
      if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (library == nullptr) return;
    int (*init)(std::uint64_t) = nullptr;
    int (*find)(std::uint64_t, void**) = nullptr;
    Bind(init, library, "amdsmi_init");
    Bind(find, library, "amdsmi_get_processor_handle_from_bdf");
    Bind(temperature_, library, "amdsmi_get_temp_metric");
    Bind(clock_, library, "amdsmi_get_clock_info");
    const std::uint64_t bdf = static_cast<std::uint64_t>(place.pci_domain) << 16 |
                              static_cast<std::uint64_t>(place.pci_bus) << 8 |
                              static_cast<std::uint64_t>(place.pci_device) << 3;
    if (init == nullptr || find == nullptr || init(kGpus) != 0 || find(bdf, &processor_) != 0) {
      processor_ = nullptr;
    }
  }

  bool found() const { return processor_ != nullptr; }

  void Read(DeviceState& state) const {
    if (!found()) return;
    constexpr int kJunction = 1, kCurrent = 0, kGraphics = 0, kMemory = 4;
    std::int64_t celsius = 0;
    if (temperature_ != nullptr && temperature_(processor_, kJunction, kCurrent, &celsius) == 0) {
      state.temperature_c = static_cast<double>(celsius);
    }
    std::uint32_t info[16] = {};  // The current clock in MHz comes first.
    if (clock_ == nullptr) return;
    if (clock_(processor_, kGraphics, info) == 0) state.clock_mhz = info[0];
    if (clock_(processor_, kMemory, info) == 0) state.memory_clock_mhz = info[0];
  }

 private:
  void* processor_ = nullptr;
  int (*temperature_)(void*, int, int, std::int64_t*) = nullptr;
  int (*clock_)(void*, int, std::uint32_t*) = nullptr;
};

class RocmSmi {
 public:
  explicit RocmSmi(const GpuPlace& place) {
    void* library = nullptr;
    for (const char* name : {"librocm_smi64.so.1", "librocm_smi64.so.7", "librocm_smi64.so.6",
                             "librocm_smi64.so.5", "librocm_smi64.so"}) {
      if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (library == nullptr) return;
    int (*init)(std::uint64_t) = nullptr;
    int (*count)(std::uint32_t*) = nullptr;
    int (*pci)(std::uint32_t, std::uint64_t*) = nullptr;
    Bind(init, library, "rsmi_init");
    Bind(count, library, "rsmi_num_monitor_devices");
    Bind(pci, library, "rsmi_dev_pci_id_get");
    Bind(temperature_, library, "rsmi_dev_temp_metric_get");
    Bind(power_, library, "rsmi_dev_power_ave_get");
    std::uint32_t devices = 0;
    if (init == nullptr || count == nullptr || pci == nullptr || init(0) != 0 ||
        count(&devices) != 0) {
      return;
    }
    for (std::uint32_t i = 0; i < devices; ++i) {
      std::uint64_t id = 0;  // domain << 32 | bus << 8 | device << 3 | function
      if (pci(i, &id) == 0 && static_cast<int>(id >> 8 & 0xff) == place.pci_bus &&
          static_cast<int>(id >> 3 & 0x1f) == place.pci_device) {
        index_ = i;
        found_ = true;
      }
    }
  }

  bool found() const { return found_; }

  void Read(DeviceState& state) const {
    if (!found_) return;
    constexpr std::uint32_t kJunction = 1;
    constexpr int kCurrent = 0;
    std::int64_t millidegrees = 0;
    if (temperature_ != nullptr && temperature_(index_, kJunction, kCurrent, &millidegrees) == 0) {
      state.temperature_c = static_cast<double>(millidegrees) / 1e3;
    }
    std::uint64_t microwatts = 0;
    if (power_ != nullptr && power_(index_, 0, &microwatts) == 0) {
      state.power_w = static_cast<double>(microwatts) / 1e6;
    }
  }

 private:
  bool found_ = false;
  std::uint32_t index_ = 0;
  int (*temperature_)(std::uint32_t, std::uint32_t, int, std::int64_t*) = nullptr;
  int (*power_)(std::uint32_t, std::uint32_t, std::uint64_t*) = nullptr;
};

class AmdMonitor final : public GpuMonitor {
 public:
  explicit AmdMonitor(const GpuPlace& place) : hwmon_(place), amd_smi_(place) {
    if (!amd_smi_.found()) rocm_smi_.emplace(place);
  }

  // Whether a board throttles is unknown here: the forms that tell differ between releases.
  DeviceState State() override {
    DeviceState state;
    hwmon_.Read(state);
    if (rocm_smi_.has_value()) rocm_smi_->Read(state);
    amd_smi_.Read(state);
    return state;
  }

  std::string source() const override {
    if (amd_smi_.found()) return "amd_smi";
    if (rocm_smi_.has_value() && rocm_smi_->found()) return "ROCm SMI";
    return hwmon_.found() ? "hwmon" : "";
  }

  std::string partition() const override { return hwmon_.Partition(); }

 private:
  Hwmon hwmon_;
  AmdSmi amd_smi_;
  std::optional<RocmSmi> rocm_smi_;
};

}  // namespace

std::unique_ptr<GpuMonitor> MakeAmdMonitor(const GpuPlace& place) {
  return std::make_unique<AmdMonitor>(place);
}

}  // namespace fettle
