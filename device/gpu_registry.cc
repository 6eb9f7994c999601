// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_registry.h"

#include <charconv>
#include <filesystem>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "device/gpu_device.h"

namespace fettle {
namespace {

struct Kind {
  std::string_view name;
  Vendor vendor;
};
constexpr Kind kKinds[] = {{"cuda", Vendor::kNvidia}, {"hip", Vendor::kAmd}};

absl::StatusOr<std::vector<DeviceInfo>> List(Vendor vendor) {
  FETTLE_ASSIGN_OR_RETURN(const std::unique_ptr<GpuApi> api, GpuApi::Load(vendor));
  auto devices = ListGpus(*api);
  if (devices.ok()) return devices;
  // Whatever the driver's code, there is nothing to use here.
  return absl::UnavailableError(devices.status().message());
}

}  // namespace

std::vector<GpuInventory> FindGpus() {
  std::vector<GpuInventory> found;
  for (const Kind& kind : kKinds) {
    GpuInventory inventory{.kind = std::string(kind.name), .devices = {}, .status = {}};
    auto devices = List(kind.vendor);
    inventory.status = devices.status();
    if (devices.ok()) inventory.devices = *std::move(devices);
    found.push_back(std::move(inventory));
  }
  return found;
}

absl::StatusOr<std::unique_ptr<Device>> OpenGpu(std::string_view id) {
  const std::size_t colon = id.find(':');
  for (const Kind& kind : kKinds) {
    if (colon == std::string_view::npos || id.substr(0, colon) != kind.name) continue;
    int index = -1;
    const std::string_view digits = id.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error != std::errc() || end != digits.data() + digits.size() || index < 0) break;
    FETTLE_ASSIGN_OR_RETURN(std::unique_ptr<GpuApi> api, GpuApi::Load(kind.vendor));
    return GpuDevice::Open(std::move(api), index);
  }
  return absl::InvalidArgumentError(
      fmt::format("open device \"{}\": expected cuda:N or hip:N", id));
}

std::vector<std::string> GpuDeviceNodes() {
  std::vector<std::string> nodes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("nvidia") || name == "kfd" || name == "dri") {
      nodes.push_back(entry.path().string());
    }
  }
  if (nodes.empty()) return nodes;
  for (const char* path : {"/proc/driver/nvidia", "/sys"}) {
    if (std::filesystem::exists(path, error)) nodes.emplace_back(path);
  }
  return nodes;
}

}  // namespace fettle
