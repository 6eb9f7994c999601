// SPDX-License-Identifier: Apache-2.0
#pragma once

// What every Device must do. A backend's test instantiates the suite:
//   INSTANTIATE_TEST_SUITE_P(Cuda, DeviceContract, ::testing::Values(...), DeviceBackendName);

#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "device/device.h"

namespace fettle {

// A module with the kernels that the suite launches:
//   add(float* y, const float* x, int n)   y[i] += x[i] for i < n; one thread per element
//   fill(int* p, int value)                p[blockIdx.x] = value
struct ContractModule {
  std::string code_object;
  std::string add, fill;  // Their symbols.
};

struct DeviceBackend {
  std::string name;
  // kUnavailable skips, or fails when FETTLE_REQUIRE_GPU=1 and `gpu`; any other error fails.
  std::function<absl::StatusOr<std::unique_ptr<Device>>()> make;
  std::function<absl::StatusOr<ContractModule>(Device&)> module;
  bool gpu = false;
  bool computes = true;  // False: launches do nothing (the null device).
};

class DeviceContract : public ::testing::TestWithParam<DeviceBackend> {
 protected:
  void SetUp() override;
  std::unique_ptr<DeviceBuffer> Buffer(const std::vector<float>& values);
  std::vector<float> Values(const DeviceBuffer& buffer);
  absl::Status Add(DeviceBuffer& y, DeviceBuffer& x, int n, LaunchConfig config);

  std::unique_ptr<Device> device_;
  ContractModule names_;
  std::unique_ptr<DeviceModule> module_;
};

inline std::string DeviceBackendName(const ::testing::TestParamInfo<DeviceBackend>& backend) {
  return backend.param.name;
}

}  // namespace fettle
