// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "cli/subcommand.h"

namespace fettle {

struct ParsedCommand {
  Subcommand* subcommand = nullptr;  // Null: print `text` and leave with kOk (--help).
  std::string text;
};

// Fills the chosen subcommand's variables from `arguments` (without the program's name).
// kInvalidArgument: unknown command or flag, missing or surplus argument; the message ends with how
// to get help.
absl::StatusOr<ParsedCommand> ParseCommandLine(
    const std::vector<std::unique_ptr<Subcommand>>& subcommands,
    const std::vector<std::string>& arguments);

}  // namespace fettle
