// SPDX-License-Identifier: Apache-2.0
#pragma once

// A kernel told as a parent and what is different: the one form in which models and clients
// propose.

#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "agent/source_patch.h"
#include "core/task.h"

namespace fettle {

struct KernelChange {
  // Fields that replace the parent's (core/task.h, ToJson(KernelSpec)); an object or null. `values`
  // without `tunables` changes only the values it names.
  nlohmann::json block;
  std::string patch;              // Unified diff of the source.
  std::vector<SourceEdit> edits;  // After the patch.
};

// What is wrong with a change, by what the proposer has to do about it.
enum class ChangeProblem { kNone, kBadField, kPatchFailed, kInvalidKernel };

// The kernel that the change makes of `parent`, checked against the task. On an error (always
// kInvalidArgument, naming field and remedy) `problem` says of which kind.
absl::StatusOr<KernelSpec> ApplyChange(const Task& task, const KernelSpec& parent,
                                       const KernelChange& change, ChangeProblem* problem);

// Reads a tool call's arguments {source, patch, edits: [{find, replace}], block: {...}}; other
// members are not looked at. kInvalidArgument names the member that has another form.
absl::StatusOr<KernelChange> ChangeFromJson(const nlohmann::json& arguments);

}  // namespace fettle
