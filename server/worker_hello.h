// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "fettle/v1/worker.pb.h"
#include "server/dispatcher.h"

namespace fettle {

// A checked Hello.
struct WorkerHello {
  WorkerView view;
  std::map<std::string, std::string> toolchains;  // Compiler identity by target.
  std::vector<std::pair<std::string, int>> held;  // Unit and attempt.
};

// kInvalidArgument names the field of `hello`.
absl::StatusOr<WorkerHello> ParseHello(const v1::Hello& hello);

}  // namespace fettle
