// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>
#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "core/target.h"

namespace fettle {

struct Disassembly {
  std::string tool;  // "nvdisasm", "cuobjdump", "llvm-objdump-22", ...
  std::string text;  // Annotated; see Annotate.
};

// Disassembles a code object with the vendor's tool or LLVM's, whichever is here: nvdisasm or
// cuobjdump (a cubin), llvm-objdump (an AMD code object).
//   kInvalidArgument    the cpu target, or the tool does not understand the bytes
//   kUnavailable        no tool is here: names what was looked for, and the remedy
//   kCancelled, kDeadlineExceeded
absl::StatusOr<Disassembly> Disassemble(std::string_view code_object, const Target& target,
                                        std::stop_token stop);

// The text with a note at the end of each line that matters: what an instruction moves and how
// wide, matrix and special-function units, barriers, atomics, memory that spills use, and branches
// back.
std::string Annotate(std::string_view disassembly, Vendor vendor);

}  // namespace fettle
