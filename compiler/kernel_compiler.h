// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "core/target.h"

namespace fettle {

struct Diagnostic {
  std::string file;          // The user's own file name.
  int line = 0, column = 0;  // From 1, in the user's own text; 0 where unknown.
  std::string severity;      // "error", "warning", "note", "remark".
  std::string text;
};

enum class CompileMode {
  kFast,   // For timing.
  kCheck,  // cpu only: instrumented for the checking runtime.
};

struct CompileRequest {
  Target target;
  Dialect dialect = Dialect::kCuda;
  CompileMode mode = CompileMode::kFast;
  int lanes = 32;           // cpu: warp width the kernel is run at; 32 or 64.
  std::string source_name;  // "kernel.cu"
  std::string source;
  std::vector<std::pair<std::string, std::string>> headers;  // Name, text.
  std::vector<std::pair<std::string, std::string>> macros;   // Name, value.
  std::vector<std::string> entries;  // Name expressions: "layernorm_fwd<__half>".
  std::vector<std::string> options;  // Allow-listed per target; anything else is rejected.
};

// The compiler accepted or rejected the source. Rejection is a result, not an error: the proposer
// reads the diagnostics and tries again.
struct CompileResult {
  bool accepted = false;
  std::string code_object;  // Empty unless accepted.
  // Symbol of entries[i] in the code object.
  std::vector<std::string> symbols;
  std::vector<Diagnostic> diagnostics;
  std::string log;       // Compiler's text, <= 64 KiB, with the user's file names.
  std::string compiler;  // Identity: "g++ 12.2.0 (Debian ...)", "nvrtc 13.0 (<build>)".
  bool cache_hit = false;
  // False: a limit on time or memory decided, so another try may end otherwise. Never cached.
  bool repeatable = true;
  std::chrono::nanoseconds elapsed{};
};

// Turns kernel source into a code object for one GPU family or the CPU.
//
// Implementations are thread-safe; each Compile runs in a child process of its own, so a compiler
// that crashes or exits rejects one request.
class KernelCompiler {
 public:
  virtual ~KernelCompiler() = default;

  // "cpu", "nvrtc", "hiprtc", "clang".
  virtual std::string_view name() const = 0;
  // Everything about the compiler that can change its output (part of the cache key).
  virtual std::string identity() const = 0;
  virtual bool Supports(const Target& target) const = 0;

  // Compiles; blocks for at most the compiler's own time limit.
  //
  // Errors (the request could not be judged, so retrying may help):
  //   kInvalidArgument    empty source, no entries, or a target it does not support
  //   kCancelled          `stop` was requested
  //   kUnavailable        the compiler or its library is missing
  // A compile that passes the time or memory limit is a rejection with a diagnostic.
  virtual absl::StatusOr<CompileResult> Compile(const CompileRequest& request,
                                                std::stop_token stop) = 0;

 protected:
  KernelCompiler() = default;
  KernelCompiler(const KernelCompiler&) = default;
  KernelCompiler& operator=(const KernelCompiler&) = default;
};

}  // namespace fettle
