// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "compiler/compile_cache.h"
#include "compiler/kernel_compiler.h"

namespace fettle {

// The compilers found on this machine. Thread-safe once made.
class Toolchains {
 public:
  // `cache_dir`: of compiled objects and precompiled headers. What is missing is left out;
  // `missing()` says why.
  // `gpu`: look for NVRTC, hiprtc and clang too, whose servers take about a second to start.
  static Toolchains Find(const std::string& cache_dir, bool gpu);
  Toolchains() = default;

  // The first that supports the target. kUnavailable names the target and what was looked for.
  absl::StatusOr<KernelCompiler*> For(const Target& target) const;
  // [{name, identity, targets}], targets among those fettle knows.
  nlohmann::json Describe() const;
  bool empty() const { return compilers_.empty(); }
  // Of all of them; null where there is none.
  CompileCache* cache() const { return cache_.get(); }
  const std::vector<std::string>& missing() const { return missing_; }

 private:
  // Takes `compiler`, behind the cache where there is one.
  void Add(std::unique_ptr<KernelCompiler> compiler);

  std::unique_ptr<CompileCache> cache_;                 // May be null.
  std::vector<std::unique_ptr<KernelCompiler>> inner_;  // What the cached ones ask.
  std::vector<std::unique_ptr<KernelCompiler>> compilers_;
  std::vector<std::string> missing_;
};

// What the bytes of a code object say of its kernels, as {format, arch, size_bytes, kernels: [...]}
// (compiler/facts/code_facts.h). kInvalidArgument: the cpu target, whose objects hold none; damaged
// bytes; another architecture.
absl::StatusOr<nlohmann::json> FactsOf(std::string_view code_object, const Target& target);

// The architecture that a GPU's code object is for, as its own bytes say: "gfx950", "sm_90".
// kInvalidArgument: damaged, or not such an object.
absl::StatusOr<Target> TargetOfObject(std::string_view code_object);

// Annotated disassembly (compiler/disassembler.h): {tool, text}.
absl::StatusOr<nlohmann::json> DisassemblyOf(std::string_view code_object, const Target& target,
                                             std::stop_token stop);

}  // namespace fettle
