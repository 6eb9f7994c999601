// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/task.h"

namespace fettle {

// A kernel's builds for a target that no device here runs; nothing was launched.
struct BuiltElsewhere {
  std::string target, compiler;
  nlohmann::json builds;  // [{entries, facts}], of the timed cases.
};

// Compiles the task's baseline with `values` for the timed cases of `target`. kUnavailable: no
// compiler for it here. kFailedPrecondition: the compiler rejects it; the message holds its first
// words.
absl::StatusOr<BuiltElsewhere> BuildElsewhere(const Task& task, const TunableValues& values,
                                              const std::string& target,
                                              const std::string& cache_dir);

}  // namespace fettle
