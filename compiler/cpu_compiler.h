// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "compiler/child_process.h"
#include "compiler/kernel_compiler.h"

namespace fettle {

struct CpuCompilerOptions {
  std::string compiler = "g++";  // Name or path of a g++ (>= 11) or clang++ (>= 14).
  // Runtime headers and precompiled headers, shared by processes. Empty: a folder of its own that
  // goes away with the compiler.
  std::string cache_dir;
  ChildLimits limits = {.wall = std::chrono::seconds(120),
                        .cpu_seconds = 40,
                        .address_space_bytes = std::int64_t{3} << 30,
                        .file_bytes = std::int64_t{256} << 20};
  bool isolate = true;  // In bubblewrap, where it works (compiler/sandbox.h).
};

// What the cpu target compiles with; `warning` is empty, or says what is missing.
struct CpuCompilerReport {
  std::string compiler;  // "g++ (Debian 12.2.0-14) 12.2.0"
  bool isolated = false;
  std::string warning;
};

// Compiles CUDA- and HIP-dialect kernels for the host CPU: a shared object that CpuDevice loads.
// Options taken from requests: -O0 ... -O3, -ffast-math (or --use_fast_math), -funroll-loops,
// -fno-unroll-loops, -fno-tree-vectorize, -std=c++17|c++20 and -DNAME[=VALUE].
class CpuCompiler : public KernelCompiler {
 public:
  // kUnavailable: no such compiler, no linker, or the cache folder cannot be written.
  static absl::StatusOr<std::unique_ptr<CpuCompiler>> Create(CpuCompilerOptions options);

  virtual const CpuCompilerReport& report() const = 0;
};

}  // namespace fettle
