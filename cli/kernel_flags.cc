// SPDX-License-Identifier: Apache-2.0
#include "cli/kernel_flags.h"

#include <filesystem>

#include <fmt/format.h>

#include "cli/kernel_file.h"
#include "cli/task_folder.h"
#include "core/json_text.h"
#include "core/status_macros.h"

namespace fettle {

using nlohmann::json;

void KernelFlags::Declare(FlagSet& flags) {
  flags.Flag("--kernel", "FILE", &kernel, "kernel source or proposal (default: the baseline)")
      .completes = Completes::kFile;
  flags.Flag("--set", "NAME=VALUE", &set, "value of a tunable; may be repeated");
}

absl::StatusOr<json> KernelFlags::Block(const Task& task) const {
  json block = ToJson(task.baseline());
  if (!kernel.empty()) {
    if (kernel.ends_with(".json")) {
      FETTLE_ASSIGN_OR_RETURN(block, ReadKernelBlock(kernel));
    } else {
      FETTLE_ASSIGN_OR_RETURN(block["source"], ReadFile(kernel, kMaxKernelBytes));
      block["source_name"] = std::filesystem::path(kernel).filename().string();
    }
  }
  for (const std::string& text : set) {
    FETTLE_RETURN_IF_ERROR(SetTunableValue(text, block["values"]));
  }
  return block;
}

}  // namespace fettle
