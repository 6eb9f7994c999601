// SPDX-License-Identifier: Apache-2.0
#pragma once

// What every KernelCompiler must do. A backend's test instantiates the suite:
//   INSTANTIATE_TEST_SUITE_P(Nvrtc, KernelCompilerContract, ::testing::Values(...), BackendName);

#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "compiler/kernel_compiler.h"

namespace fettle {

struct CompilerBackend {
  std::string name;
  // kUnavailable means "not present on this host" and skips, or fails when FETTLE_REQUIRE_GPU=1 and
  // the target is a GPU; any other error fails.
  std::function<absl::StatusOr<std::unique_ptr<KernelCompiler>>()> make;
  Target target;
  Dialect dialect = Dialect::kCuda;
};

class KernelCompilerContract : public ::testing::TestWithParam<CompilerBackend> {
 protected:
  void SetUp() override;
  // A request that the backend accepts: `extern "C" add` and a template `scale<T>`.
  CompileRequest Request() const;

  std::unique_ptr<KernelCompiler> compiler_;
};

inline std::string BackendName(const ::testing::TestParamInfo<CompilerBackend>& backend) {
  return backend.param.name;
}

}  // namespace fettle
