// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "compiler/gpu/clang_compiler.h"
#include "compiler/gpu/rtc_compiler.h"
#include "compiler/kernel_compiler.h"

namespace fettle {

struct GpuCompilersOptions {
  std::string program;  // fettle-compiled; empty: beside this program.
  // A folder made by deploy/scripts/get_hiprtc.sh: its loader and libraries run hiprtc. Empty: the
  // one named by FETTLE_HIPRTC_PREFIX, if any.
  std::string hiprtc_prefix;
  // libhiprtc to use without a prefix; empty: the one named by FETTLE_HIPRTC_LIBRARY, else the
  // usual names.
  std::string hiprtc_library;
  // libnvrtc to use; empty: the one named by FETTLE_NVRTC_LIBRARY, else the usual names.
  std::string nvrtc_library;
  std::int64_t cpu_seconds = 60, wall_seconds = 120;  // Longest compile.
  bool isolate = true;
};

struct GpuCompilerSearch {
  std::string name;                          // "nvrtc", "hiprtc", "clang".
  std::unique_ptr<KernelCompiler> compiler;  // Null where there is none.
  absl::Status status;                       // Then why: kUnavailable.
};

// Looks for NVRTC, hiprtc and clang, in this order; each starts its server.
std::vector<GpuCompilerSearch> FindGpuCompilers(const GpuCompilersOptions& options);

// The first that makes code for `target`: NVRTC for sm_*, hiprtc before clang for gfx*.
// kUnavailable says what was tried for it; kInvalidArgument: not a GPU target.
absl::StatusOr<std::unique_ptr<KernelCompiler>> FindGpuCompilerFor(
    const Target& target, const GpuCompilersOptions& options);

}  // namespace fettle
