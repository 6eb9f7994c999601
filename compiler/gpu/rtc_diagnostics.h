// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/kernel_compiler.h"

namespace fettle {

// Diagnostics out of NVRTC's text: "file(line): error: ...", whose column is under its caret, and
// ptxas's, which concern the generated PTX and carry no line of the user's.
std::vector<Diagnostic> ParseNvrtcDiagnostics(std::string_view log);

// A log without the random folders that comgr and clang compile in:
// "/tmp/comgr-1a2b/input/kernel.hip:3:1: ..." becomes "kernel.hip:3:1: ...".
std::string StripTemporaryFolders(std::string_view log);

}  // namespace fettle
