// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "device/gpu_device.h"
#include "device/launch_check.h"

namespace fettle {
namespace {

std::string_view Kind(const GpuApi& api) {
  return api.vendor() == Vendor::kNvidia ? "cuda" : "hip";
}

std::string FormatUuid(const std::array<char, 16>& raw) {
  std::string text;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(raw[i]));
  }
  return text;
}

// "13.0" for CUDA's 13000; "7.2.53211" for HIP's 70253211.
std::string FormatVersion(Vendor vendor, int version) {
  if (vendor == Vendor::kNvidia) return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  return fmt::format("{}.{}.{}", version / 10000000, version / 100000 % 100, version % 100000);
}

// The built-in target with what the device itself reports put over it. A device of an architecture
// that is not built in gets the limits it reports.
absl::StatusOr<Target> TargetOf(const GpuApi& api, int device) {
  FETTLE_ASSIGN_OR_RETURN(const std::string name, api.Architecture(device));
  Target target;
  if (auto known = FindTarget(name); known.ok()) target = *std::move(known);
  target.name = name;
  target.vendor = api.vendor();
  const GpuAttributes& at = api.attributes();
  const auto take = [&](std::int64_t& into, int attribute) {
    int value = 0;
    if (api.device_attribute(&value, attribute, device) == kGpuSuccess && value > 0) into = value;
  };
  take(target.wave, at.warp);
  take(target.cus, at.multiprocessors);
  take(target.max_block, at.max_threads);
  take(target.lds_static, at.shared_bytes);
  take(target.lds, at.shared_bytes_opt_in);
  // HIP reports per block what CUDA reports per multiprocessor; the card's figure stands there.
  if (api.vendor() == Vendor::kNvidia) take(target.registers, at.registers);
  std::int64_t l2 = 0;
  take(l2, at.l2_bytes);
  // AMD's last level is the memory-side cache, which HIP does not report.
  if (api.vendor() == Vendor::kNvidia ? l2 > 0 : l2 > target.cache) target.cache = l2;
  for (int axis = 0; axis < 3; ++axis) {
    take(target.max_block_dim[axis], at.block_x + axis);
    take(target.max_grid[axis], at.grid_x + axis);
  }
  return target;
}

absl::Status OutOfLimit(const DeviceInfo& device, std::string_view what, std::int64_t asked,
                        std::int64_t limit) {
  return absl::InvalidArgumentError(
      fmt::format("launch on {}: {} is {}, the limit is {}", device.id, what, asked, limit));
}

absl::Status CheckCluster(const DeviceInfo& device, const LaunchConfig& config) {
  if (config.cluster[0] <= 0) return absl::OkStatus();
  constexpr std::int64_t kMaxCluster = 16;
  std::int64_t blocks = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t size = std::max<std::int64_t>(1, config.cluster[i]);
    blocks *= size;
    if (blocks > kMaxCluster) return OutOfLimit(device, "cluster size", blocks, kMaxCluster);
    if (config.grid[i] % size != 0) {
      return absl::InvalidArgumentError(
          fmt::format("launch on {}: grid {} is not a multiple of cluster {} in dimension {}",
                      device.id, config.grid[i], size, i));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckArguments(const DeviceInfo& device, const FunctionInfo& function,
                            std::span<const KernelArgument> arguments) {
  const auto& expected = function.parameter_bytes;
  if (expected.empty()) return absl::OkStatus();
  if (arguments.size() != expected.size()) {
    return absl::InvalidArgumentError(
        fmt::format("launch {} on {}: {} arguments given, the kernel takes {}", function.symbol,
                    device.id, arguments.size(), expected.size()));
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto given = static_cast<std::int64_t>(arguments[i].size());
    if (given == expected[i]) continue;
    return absl::InvalidArgumentError(
        fmt::format("launch {} on {}: argument {} has {} bytes, the kernel's parameter {}",
                    function.symbol, device.id, i, given, expected[i]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DeviceInfo> DescribeGpu(const GpuApi& api, int index) {
  int device = 0;
  FETTLE_RETURN_IF_ERROR(api.Check(api.device_get(&device, index),
                                   fmt::format("find {} device {}", Kind(api), index)));
  DeviceInfo info;
  info.id = fmt::format("{}:{}", Kind(api), index);
  std::array<char, 256> name{};
  FETTLE_RETURN_IF_ERROR(
      api.Check(api.device_name(name.data(), static_cast<int>(name.size()) - 1, device), "name"));
  info.model = name.data();
  int version = 0;
  FETTLE_RETURN_IF_ERROR(api.Check(api.driver_version(&version), "driver version"));
  info.driver = fmt::format("{} {}", api.vendor() == Vendor::kNvidia ? "CUDA" : "HIP",
                            FormatVersion(api.vendor(), version));
  std::array<char, 16> uuid{};
  if (api.device_uuid != nullptr && api.device_uuid(uuid.data(), device) == kGpuSuccess) {
    info.uuid = FormatUuid(uuid);
  }
  if (const auto mig = info.model.find("MIG"); mig != std::string::npos) {
    info.partition = info.model.substr(mig);
  }
  std::size_t memory = 0;
  FETTLE_RETURN_IF_ERROR(api.Check(api.device_memory(&memory, device), "memory size"));
  info.memory_bytes = static_cast<std::int64_t>(memory);
  FETTLE_ASSIGN_OR_RETURN(info.target, TargetOf(api, device));
  return info;
}

absl::StatusOr<std::vector<DeviceInfo>> ListGpus(const GpuApi& api) {
  FETTLE_RETURN_IF_ERROR(api.Check(api.init(0), fmt::format("start {}", api.library())));
  int count = 0;
  FETTLE_RETURN_IF_ERROR(api.Check(api.device_count(&count), "count devices"));
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < count; ++i) {
    FETTLE_ASSIGN_OR_RETURN(DeviceInfo info, DescribeGpu(api, i));
    devices.push_back(std::move(info));
  }
  if (devices.empty()) {
    return absl::UnavailableError(fmt::format("{} found no device", api.library()));
  }
  return devices;
}

absl::Status CheckGpuLaunch(const DeviceInfo& device, const FunctionInfo& function,
                            const LaunchConfig& config, std::span<const KernelArgument> arguments) {
  FETTLE_RETURN_IF_ERROR(CheckLaunch(config, device.target, function.static_shared_bytes));
  std::int64_t threads = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t grid = config.grid[i], block = config.block[i];
    threads *= block;
    // HIP counts work-items of a dimension in 32 bits; a larger launch is silently cut.
    constexpr std::int64_t kMaxWorkItems = (std::int64_t{1} << 32) - 1;
    if (device.target.vendor == Vendor::kAmd && grid > kMaxWorkItems / block) {
      return OutOfLimit(device, fmt::format("grid.{0} * block.{0}", "xyz"[i]), grid * block,
                        kMaxWorkItems);
    }
  }
  if (function.max_threads > 0 && threads > function.max_threads) {
    return OutOfLimit(device, fmt::format("threads of a block of {}", function.symbol), threads,
                      function.max_threads);
  }
  FETTLE_RETURN_IF_ERROR(CheckCluster(device, config));
  return CheckArguments(device, function, arguments);
}

}  // namespace fettle
