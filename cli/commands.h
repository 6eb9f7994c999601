// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "cli/subcommand.h"

namespace fettle {

// One factory per subcommand, each in its own file.
std::unique_ptr<Subcommand> MakeCompletionCommand();
std::unique_ptr<Subcommand> MakeVersionCommand();

std::string FettleVersion();

}  // namespace fettle
