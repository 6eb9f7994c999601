// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/child_process.h"
#include "compiler/kernel_compiler.h"

namespace fettle {

struct ClangOptions {
  // Tried in this order; each needs the AMD backend and its own lld.
  std::vector<std::string> programs = {"clang-23", "clang-22", "clang-21", "clang-20"};
  ChildLimits limits = {.wall = std::chrono::seconds(60),
                        .cpu_seconds = 60,
                        .address_space_bytes = std::int64_t{8} << 30,
                        .file_bytes = std::int64_t{256} << 20};
  bool isolate = true;  // In bubblewrap, where it works.
};

// Compiles AMD code objects with clang alone: no ROCm, no device libraries, our own device header
// (shims/fettle_amd_device.h says what it lacks). kUnavailable: no clang with gfx950 and lld.
absl::StatusOr<std::unique_ptr<KernelCompiler>> MakeClangCompiler(ClangOptions options);

}  // namespace fettle
