// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/status.h>

#include "compiler/kernel_compiler.h"

namespace fettle {

// In-memory headers that a source of `dialect` sees when it is compiled for `vendor`, and the one
// of them that is included before its first line ("" for none). So a plain CUDA kernel compiles for
// AMD and a HIP kernel for NVIDIA, with its own line numbers.
struct DialectHeaders {
  std::vector<std::pair<std::string, std::string>> headers;  // Name, text.
  std::string first;
};
enum class GpuFrontEnd { kNvrtc, kHiprtc, kClang };
DialectHeaders HeadersFor(GpuFrontEnd front_end, Dialect dialect);

// SHA-256 over all of them: part of a compiler's identity.
const std::string& DialectHeadersDigest();

// The system headers that `source` includes before anything else of its own, one "#include <...>"
// to a line, where NVRTC takes long over one of them; else empty. After them, macros of a command
// line mean the same as before: no such header looks at names that are not reserved.
std::string SlowHeadersOf(std::string_view source);

// What in `source` belongs to the other vendor than `vendor`: inline PTX or GCN assembly, wgmma,
// mfma and other builtins, vendor libraries. One diagnostic each, that says so. A source may name
// both under #if, so this only explains a rejection.
std::vector<Diagnostic> FindForeignCode(const CompileRequest& request);

// What is wrong with a request before any compiler sees it: reads files, odd macros, entries or
// header names, `options.rejected`. Empty: nothing.
std::vector<Diagnostic> FindRequestObjections(const CompileRequest& request,
                                              const std::string& rejected_option,
                                              const std::string& allowed_options);

// A rejection that consists of `diagnostics`.
CompileResult RejectionOf(std::vector<Diagnostic> diagnostics);

// kInvalidArgument: no source or no entries.
absl::Status CheckRequest(const CompileRequest& request, std::string_view compiler);

}  // namespace fettle
