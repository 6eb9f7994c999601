// SPDX-License-Identifier: Apache-2.0
#include "agent/kernel_change.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/status_macros.h"
#include "core/text.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr const char* kBlockFields[] = {"source",    "source_name", "headers", "dialect",
                                        "lanes",     "tunables",    "values",  "constraints",
                                        "workspace", "launches",    "requires"};

absl::Status Overlay(const json& given, json& block) {
  if (given.is_null()) return absl::OkStatus();
  if (!given.is_object()) return absl::InvalidArgumentError("block: must be a JSON object");
  for (const auto& [key, value] : given.items()) {
    if (std::find(std::begin(kBlockFields), std::end(kBlockFields), key) ==
        std::end(kBlockFields)) {
      return absl::InvalidArgumentError(fmt::format("block.{}: no such field; there are {}",
                                                    CutText(key, 80),
                                                    fmt::join(kBlockFields, ", ")));
    }
    if (key == "values" && value.is_object() && !given.contains("tunables")) {
      for (const auto& [name, chosen] : value.items()) block["values"][name] = chosen;
    } else if (key == "tunables" && value.is_object()) {  // As task.yaml writes them.
      json list = json::array();
      for (const auto& [name, values] : value.items()) {
        list.push_back({{"name", name}, {"values", values}});
      }
      block[key] = std::move(list);
    } else {
      block[key] = value;
    }
  }
  if (!block["source"].is_string()) {
    return absl::InvalidArgumentError("block.source: must be text");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<KernelSpec> ApplyChange(const Task& task, const KernelSpec& parent,
                                       const KernelChange& change, ChangeProblem* problem) {
  json block = ToJson(parent);
  *problem = ChangeProblem::kBadField;
  FETTLE_RETURN_IF_ERROR(Overlay(change.block, block));
  *problem = ChangeProblem::kPatchFailed;
  std::string source = block["source"].get<std::string>();
  if (!change.patch.empty()) {
    FETTLE_ASSIGN_OR_RETURN(source, ApplyUnifiedDiff(source, change.patch));
  }
  FETTLE_ASSIGN_OR_RETURN(block["source"], ApplyEdits(std::move(source), change.edits));
  *problem = ChangeProblem::kInvalidKernel;
  if (block["source"].get_ref<const std::string&>().find_first_not_of(" \t\r\n") ==
      std::string::npos) {
    return absl::InvalidArgumentError("source: is empty; give the whole text of the kernel");
  }
  std::vector<TaskProblem> problems;
  absl::StatusOr<KernelSpec> kernel = task.ParseKernelSpec(block, &problems);
  if (!kernel.ok()) {
    return absl::InvalidArgumentError(problems.empty() ? StatusText(kernel.status())
                                                       : FormatProblems(problems));
  }
  *problem = ChangeProblem::kNone;
  return kernel;
}

absl::StatusOr<KernelChange> ChangeFromJson(const json& arguments) {
  KernelChange change;
  const auto text = [&](const char* name, std::string& out) -> absl::Status {
    const auto found = arguments.find(name);
    if (found == arguments.end() || found->is_null()) return absl::OkStatus();
    if (!found->is_string()) {
      return absl::InvalidArgumentError(fmt::format("{}: must be text", name));
    }
    out = found->get<std::string>();
    return absl::OkStatus();
  };
  if (!arguments.is_object()) return absl::InvalidArgumentError("the arguments: must be an object");
  FETTLE_RETURN_IF_ERROR(text("patch", change.patch));
  if (const auto block = arguments.find("block"); block != arguments.end() && !block->is_null()) {
    if (!block->is_object()) return absl::InvalidArgumentError("block: must be an object");
    change.block = *block;
  }
  if (const auto source = arguments.find("source");
      source != arguments.end() && !source->is_null()) {
    if (!source->is_string()) return absl::InvalidArgumentError("source: must be text");
    if (change.block.is_null()) change.block = json::object();
    change.block["source"] = *source;
  }
  const auto edits = arguments.find("edits");
  if (edits == arguments.end() || edits->is_null()) return change;
  if (!edits->is_array()) return absl::InvalidArgumentError("edits: must be a list");
  for (const json& edit : *edits) {
    const bool good = edit.is_object() && edit.contains("find") && edit["find"].is_string() &&
                      edit.contains("replace") && edit["replace"].is_string();
    if (!good) {
      return absl::InvalidArgumentError("edits: each must be {find, replace}, both text");
    }
    change.edits.push_back({edit["find"].get<std::string>(), edit["replace"].get<std::string>()});
  }
  return change;
}

}  // namespace fettle
