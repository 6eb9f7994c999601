// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <absl/status/statusor.h>

#include "core/task.h"

namespace fettle {

struct TestVectorOptions {
  std::string runner_path, cache_dir;  // As UnitRunnerOptions.
  std::uint64_t seed = 1;              // Of the inputs.
  int most_cases = 6;
  std::int64_t most_bytes = 192 * 1024;  // Of one case's tensors.
};

// Inputs, expected outputs and tolerances of the task's small checked cases, from its reference, as
// files by path: "index.json" and one file per tensor. Expected values and tolerances are doubles;
// inputs are the tensors' own bytes. The same task and seed give the same files. Empty: no case is
// small enough, or none can be told by tensors alone (arrays of tensors, strides, a custom
// checker). kUnavailable: no compiler for the reference, or no fettle-runner.
absl::StatusOr<std::map<std::string, std::string>> MakeTestVectors(
    const Task& task, const TestVectorOptions& options);

}  // namespace fettle
