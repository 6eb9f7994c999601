// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/kernel_compiler.h"

namespace fettle {

inline constexpr std::size_t kMaxLogBytes = 64 * 1024;
inline constexpr std::size_t kMaxDiagnostics = 200;

// Diagnostics out of the text that g++ and clang print: "file:line:column: severity: text". Lines
// of context are left out; an "In file included from" chain too. At most kMaxDiagnostics.
std::vector<Diagnostic> ParseGnuDiagnostics(std::string_view log);

// The log with each `from` replaced by its `to`, control characters but tab and newline dropped,
// and cut to kMaxLogBytes with a closing line that says so.
std::string CleanLog(std::string log,
                     const std::vector<std::pair<std::string, std::string>>& replacements);

// A rejection with one diagnostic that concerns the whole file.
CompileResult Rejection(const std::string& file, std::string text);

}  // namespace fettle
