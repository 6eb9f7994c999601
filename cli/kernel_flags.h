// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "cli/flags.h"
#include "core/task.h"

namespace fettle {

// Which kernel of a task is meant: its baseline, another source under the baseline's plan, or a
// whole proposal, with values of tunables.
struct KernelFlags {
  std::string kernel;            // File; empty: the baseline.
  std::vector<std::string> set;  // "NAME=INTEGER".

  void Declare(FlagSet& flags);
  // The kernel as the block that Task::ParseKernelSpec reads. Errors of reading the file;
  // kInvalidArgument: not a proposal, or a value that is none.
  absl::StatusOr<nlohmann::json> Block(const Task& task) const;
};

}  // namespace fettle
