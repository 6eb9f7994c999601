// SPDX-License-Identifier: Apache-2.0
// What holds of GPU devices on a machine without one.
#include "device/gpu_registry.h"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "device/gpu_device.h"
#include "device/gpu_kernels.h"
#include "device/gpu_monitor.h"

namespace fettle {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

DeviceInfo H200() {
  DeviceInfo info{.id = "cuda:0"};
  info.target = {.name = "sm_90a",
                 .vendor = Vendor::kNvidia,
                 .wave = 32,
                 .lds = 232448,
                 .lds_static = 49152,
                 .cus = 132};
  return info;
}

DeviceInfo Mi350x() {
  DeviceInfo info{.id = "hip:0"};
  info.target = {.name = "gfx950",
                 .vendor = Vendor::kAmd,
                 .wave = 64,
                 .lds = 163840,
                 .lds_static = 163840,
                 .cus = 256};
  info.target.max_grid[0] = info.target.max_grid[1] = info.target.max_grid[2] = 2147483647;
  return info;
}

// A machine's files in a folder: nodes are plain files here.
class GpuFiles {
 public:
  ~GpuFiles() {
    std::error_code error;
    std::filesystem::remove_all(root, error);
  }
  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  }
  void AddNvidia(int minor, const std::string& uuid) const {
    Write("/dev/nvidia" + std::to_string(minor), "");
    Write("/proc/driver/nvidia/gpus/0000:" + std::to_string(9 - minor) + "a:00.0/information",
          "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-" + uuid + "\nDevice Minor: \t " +
              std::to_string(minor) + "\n");
  }
  const std::string root =
      fmt::format("{}fettle-gpu-files-{}", ::testing::TempDir(), static_cast<int>(getpid()));
};

std::vector<std::string> Below(const std::string& root, std::vector<std::string> paths) {
  for (std::string& path : paths) path = root + path;
  return paths;
}

TEST(GpuView, ShowsOneGpuOfSeveral) {
  const GpuFiles files;
  files.AddNvidia(0, "aaaaaaaa-0000-0000-0000-000000000000");
  files.AddNvidia(1, "bbbbbbbb-1111-1111-1111-111111111111");
  for (const char* node : {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/null", "/sys/x"}) {
    files.Write(node, "");
  }
  EXPECT_TRUE(SeveralGpus(files.root));
  DeviceInfo device = H200();
  device.id = "cuda:1";
  device.uuid = "aaaaaaaa-0000-0000-0000-000000000000";  // The driver's order is its own.
  const GpuView view = GpuViewOf(device, files.root);
  EXPECT_THAT(view.nodes, UnorderedElementsAreArray(Below(
                              files.root, {"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm",
                                           "/proc/driver/nvidia", "/sys"})));
  EXPECT_EQ(view.id, "cuda:0");
  EXPECT_THAT(view.environment,
              ElementsAre("CUDA_VISIBLE_DEVICES=GPU-aaaaaaaa-0000-0000-0000-000000000000"));
  device.partition = "MIG 3g.71gb";
  EXPECT_EQ(GpuViewOf(device, files.root).id, "cuda:1");
}

TEST(GpuView, OneGpuOrOneThatCannotBeToldIsShownAsItIs) {
  const GpuFiles files;
  files.AddNvidia(0, "aaaaaaaa-0000-0000-0000-000000000000");
  EXPECT_FALSE(SeveralGpus(files.root));
  DeviceInfo device = H200();
  device.uuid = "aaaaaaaa-0000-0000-0000-000000000000";
  EXPECT_EQ(GpuViewOf(device, files.root).id, "cuda:0");
  EXPECT_TRUE(GpuViewOf(device, files.root).environment.empty());
  files.Write("/dev/nvidia1", "");
  device.id = "cuda:1";
  device.uuid = "cccccccc-2222-2222-2222-222222222222";
  const GpuView unknown = GpuViewOf(device, files.root);
  EXPECT_EQ(unknown.id, "cuda:1");
  EXPECT_EQ(unknown.nodes, GpuDeviceNodes(files.root));
}

TEST(GpuView, FindsTheRenderNodeOfAnAmdGpu) {
  const GpuFiles files;
  const std::string topology = "/sys/class/kfd/kfd/topology/nodes/";
  files.Write(topology + "0/properties", "cpu_cores_count 64\nsimd_count 0\ndrm_render_minor 0\n");
  files.Write(topology + "2/properties", "simd_count 1024\ndrm_render_minor 130\n");
  files.Write(topology + "10/properties", "simd_count 1024\ndrm_render_minor 129\n");
  for (const char* node :
       {"/dev/kfd", "/dev/dri/card1", "/dev/dri/renderD129", "/dev/dri/renderD130"}) {
    files.Write(node, "");
  }
  DeviceInfo device = Mi350x();
  device.id = "hip:1";
  const GpuView view = GpuViewOf(device, files.root);
  EXPECT_EQ(view.id, "hip:0");
  EXPECT_THAT(view.nodes, UnorderedElementsAreArray(
                              Below(files.root, {"/dev/kfd", "/dev/dri/renderD129", "/sys"})));
  EXPECT_TRUE(view.environment.empty());
}

TEST(CheckGpuLaunch, NamesTheLimit) {
  struct Case {
    LaunchConfig config;
    const char* says;
  };
  const Case cases[] = {
      {{.grid = {0, 1, 1}}, "grid.x is 0"},
      {{.block = {2048, 1, 1}}, "block.x is 2048"},
      {{.block = {1, 1, 65}}, "block.z is 65"},
      {{.block = {64, 32, 1}}, "2048 threads"},
      {{.grid = {1, 65536, 1}}, "grid.y is 65536"},
      {{.shared_bytes = 300 * 1024}, "307200 bytes of dynamic"},
      {{.grid = {6, 1, 1}, .cluster = {4, 1, 1}}, "not a multiple of cluster 4"},
      {{.grid = {32, 1, 1}, .cluster = {32, 1, 1}}, "cluster size is 32, the limit is 16"},
  };
  for (const Case& c : cases) {
    const absl::Status status = CheckGpuLaunch(H200(), FunctionInfo{}, c.config, {});
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << c.says;
    EXPECT_NE(std::string(status.message()).find(c.says), std::string::npos) << status;
  }
  EXPECT_TRUE(CheckGpuLaunch(H200(), FunctionInfo{}, {.shared_bytes = 232448}, {}).ok());
}

TEST(CheckGpuLaunch, CountsStaticSharedMemoryAndTheFunctionsOwnLimit) {
  const FunctionInfo function{.static_shared_bytes = 1024, .max_threads = 256};
  EXPECT_FALSE(CheckGpuLaunch(H200(), function, {.shared_bytes = 232448}, {}).ok());
  EXPECT_FALSE(CheckGpuLaunch(H200(), function, {.block = {257, 1, 1}}, {}).ok());
  EXPECT_TRUE(CheckGpuLaunch(H200(), function, {.block = {256, 1, 1}}, {}).ok());
}

TEST(CheckGpuLaunch, RefusesMoreThan32BitsOfWorkItemsOnHip) {
  const LaunchConfig config{.grid = {1 << 24, 1, 1}, .block = {256, 1, 1}};
  EXPECT_FALSE(CheckGpuLaunch(Mi350x(), FunctionInfo{}, config, {}).ok());
  EXPECT_TRUE(CheckGpuLaunch(H200(), FunctionInfo{}, config, {}).ok());
}

TEST(CheckGpuLaunch, ComparesArgumentsWithParameters) {
  const FunctionInfo function{.symbol = "add", .parameter_bytes = {8, 4}};
  const std::vector<KernelArgument> right{KernelArgument(8), KernelArgument(4)};
  const std::vector<KernelArgument> few{KernelArgument(8)};
  const std::vector<KernelArgument> wide{KernelArgument(8), KernelArgument(8)};
  EXPECT_TRUE(CheckGpuLaunch(H200(), function, {}, right).ok());
  EXPECT_FALSE(CheckGpuLaunch(H200(), function, {}, few).ok());
  EXPECT_FALSE(CheckGpuLaunch(H200(), function, {}, wide).ok());
}

TEST(NvmlReasons, TellsHeatFromThePowerCap) {
  EXPECT_FALSE(NvmlReasonsThrottle(0x4));
  EXPECT_TRUE(NvmlReasonsThrottle(0x8));
  EXPECT_TRUE(NvmlReasonsThrottle(0x20 | 0x4));
  EXPECT_EQ(NvmlReasonNames(0x1), "");
  EXPECT_EQ(NvmlReasonNames(0x44), "SW_POWER_CAP|HW_THERMAL_SLOWDOWN");
}

TEST(KernelImage, IsThereForEveryTargetThatRuns) {
  for (const DeviceInfo& info : {H200(), Mi350x()}) {
    const auto images = OwnKernelImages(info.target);
    ASSERT_TRUE(images.ok()) << images.status();
    EXPECT_EQ(images->size(), info.target.vendor == Vendor::kNvidia ? 2u : 1u);
    for (const std::string& image : *images) EXPECT_FALSE(image.empty());
  }
  EXPECT_TRUE(
      absl::IsNotFound(OwnKernelImages(Target{.name = "gfx906", .vendor = Vendor::kAmd}).status()));
}

TEST(GpuRegistry, RefusesOddIds) {
  for (const char* id : {"", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "tpu:0", "cpu"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(OpenGpu(id).status())) << id;
  }
}

TEST(GpuRegistry, SaysWhyAVendorHasNoDevice) {
  for (const GpuInventory& inventory : FindGpus()) {
    EXPECT_EQ(inventory.devices.empty(), !inventory.status.ok());
    if (!inventory.status.ok()) {
      EXPECT_TRUE(absl::IsUnavailable(inventory.status)) << inventory.status;
      EXPECT_FALSE(inventory.status.message().empty());
    }
  }
}

}  // namespace
}  // namespace fettle
