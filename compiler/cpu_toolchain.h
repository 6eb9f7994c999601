// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "compiler/kernel_compiler.h"
#include "compiler/sandbox.h"

namespace fettle {

// The host compiler and linker that the cpu target uses.
struct CpuToolchain {
  std::string compiler, linker;  // Real paths.
  bool is_clang = false;
  std::string version;          // First line of --version.
  std::string machine;          // Digest of the macros that -march=native defines.
  std::string libgcc, libmvec;  // Paths; empty where there is none.
  // Folders beside /usr that the compiler needs in its sandbox (a compiler in /opt).
  std::vector<SandboxMount> mounts;
};

// Finds both and asks them who they are. kUnavailable says what is missing.
absl::StatusOr<CpuToolchain> FindCpuToolchain(const std::string& compiler);

// Options of a request after the allow-list.
struct CpuOptions {
  std::vector<std::string> flags;  // For the compiler, in order.
  std::vector<std::pair<std::string, std::string>> macros;
  bool fast_math = false;
  std::string rejected;  // The first option that is not allowed; empty: all are.
};
CpuOptions ReadCpuOptions(const std::vector<std::string>& options);

// Flags that decide the code and the precompiled header; without paths.
std::vector<std::string> CpuCompileFlags(const CpuToolchain& toolchain, CompileMode mode, int lanes,
                                         const CpuOptions& options);
std::vector<std::string> CpuLinkFlags(const CpuToolchain& toolchain, CompileMode mode,
                                      const CpuOptions& options);

// Whether a kernel may refer to this undefined symbol: the runtime's, the C math library's, a few
// memory functions. Anything else is host code or a missing definition.
bool IsAllowedImport(std::string_view symbol);

}  // namespace fettle
