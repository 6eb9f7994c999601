// SPDX-License-Identifier: Apache-2.0
// What holds of GPU devices on a machine without one.
#include "device/gpu_registry.h"

#include <gtest/gtest.h>

#include "device/gpu_device.h"
#include "device/gpu_kernels.h"
#include "device/gpu_monitor.h"

namespace fettle {
namespace {

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
