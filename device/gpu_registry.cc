// SPDX-License-Identifier: Apache-2.0
#include "device/gpu_registry.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

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

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// What stands behind `key` and blanks in a file of "key value" or "key: value" lines; empty:
// nothing.
std::string ValueIn(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t at = line.find_first_not_of(": \t", key.size());
    return at == std::string::npos ? "" : line.substr(at);
  }
  return "";
}

std::vector<std::string> NvidiaNodes(const std::string& root) {
  std::vector<std::string> nodes;
  for (const std::string& name : NamesIn(root + "/dev")) {
    if (name.starts_with("nvidia") && IsNumber(std::string_view(name).substr(6))) {
      nodes.push_back(root + "/dev/" + name);
    }
  }
  return nodes;
}

std::string NvidiaNodeOf(const DeviceInfo& device, const std::string& root) {
  const std::string gpus = root + "/proc/driver/nvidia/gpus";
  for (const std::string& bus : NamesIn(gpus)) {
    const std::string file = gpus + "/" + bus + "/information";
    if (ValueIn(file, "GPU UUID") != "GPU-" + device.uuid) continue;
    const std::string minor = ValueIn(file, "Device Minor");
    if (IsNumber(minor)) return root + "/dev/nvidia" + minor;
  }
  return "";
}

std::vector<std::string> RenderNodes(const std::string& root) {
  std::vector<std::string> nodes;
  for (const std::string& name : NamesIn(root + "/dev/dri")) {
    if (name.starts_with("renderD")) nodes.push_back(root + "/dev/dri/" + name);
  }
  return nodes;
}

// The HIP runtime numbers the GPUs of the kernel's topology in its order.
std::string RenderNodeOf(const DeviceInfo& device, const std::string& root) {
  const std::string topology = root + "/sys/class/kfd/kfd/topology/nodes";
  std::map<int, std::string> minors;  // By node, of GPUs only.
  for (const std::string& node : NamesIn(topology)) {
    const std::string file = topology + "/" + node + "/properties";
    const std::string simds = ValueIn(file, "simd_count");
    if (!IsNumber(node) || !IsNumber(simds) || simds == "0") continue;
    minors[std::atoi(node.c_str())] = ValueIn(file, "drm_render_minor");
  }
  const std::string index = device.id.substr(device.id.find(':') + 1);
  int left = IsNumber(index) ? std::atoi(index.c_str()) : -1;
  for (const auto& [node, minor] : minors) {
    if (left-- == 0) return IsNumber(minor) ? root + "/dev/dri/renderD" + minor : "";
  }
  return "";
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

std::vector<std::string> GpuDeviceNodes(const std::string& root) {
  std::vector<std::string> nodes;
  for (const std::string& name : NamesIn(root + "/dev")) {
    if (name.starts_with("nvidia") || name == "kfd" || name == "dri") {
      nodes.push_back(root + "/dev/" + name);
    }
  }
  if (nodes.empty()) return nodes;
  std::error_code error;
  for (const char* path : {"/proc/driver/nvidia", "/sys"}) {
    if (std::filesystem::exists(root + path, error)) nodes.push_back(root + path);
  }
  return nodes;
}

bool SeveralGpus(const std::string& root) {
  return NvidiaNodes(root).size() > 1 || RenderNodes(root).size() > 1;
}

GpuView GpuViewOf(const DeviceInfo& device, const std::string& root) {
  GpuView view{.nodes = GpuDeviceNodes(root), .environment = {}, .id = device.id};
  if (!device.partition.empty()) return view;
  const bool nvidia = device.id.starts_with("cuda:");
  const std::vector<std::string> all = nvidia ? NvidiaNodes(root) : RenderNodes(root);
  const std::string own = nvidia ? NvidiaNodeOf(device, root) : RenderNodeOf(device, root);
  if (all.size() < 2 || std::find(all.begin(), all.end(), own) == all.end()) return view;
  std::erase_if(view.nodes, [&](const std::string& node) {
    return std::find(all.begin(), all.end(), node) != all.end() || node == root + "/dev/dri";
  });
  view.nodes.push_back(own);
  // The driver numbers what it sees.
  view.id = nvidia ? "cuda:0" : "hip:0";
  if (nvidia) view.environment.push_back("CUDA_VISIBLE_DEVICES=GPU-" + device.uuid);
  return view;
}

}  // namespace fettle
