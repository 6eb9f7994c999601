// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "cli/flags.h"
#include "worker/toolchains.h"

namespace fettle {

// A kernel source to compile, outside any task: for `compile` and `disasm`.
struct SourceFlags {
  std::string target = "cpu";
  std::vector<std::string> entries, defines, options, headers;
  std::int64_t lanes = 32;

  void Declare(FlagSet& flags);
  // Reads `file`; without --entry its kernels that are no templates are meant. kInvalidArgument: it
  // has none, or an unknown target.
  absl::StatusOr<CompileRequest> Request(const std::string& file) const;
};

}  // namespace fettle
