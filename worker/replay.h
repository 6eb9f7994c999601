// SPDX-License-Identifier: Apache-2.0
#pragma once

// One call of a kernel as a file, so that a program outside the sandbox, a vendor's profiler, can
// run it once more. Nothing is judged by what such a call computes.

#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "device/device.h"
#include "device/runner_session.h"

namespace fettle {

struct Replay {
  RunRequest request;  // Its kernel's module is ignored.
  std::string code_object;
  std::vector<std::string> symbols;
};

nlohmann::json ToJson(const Replay& replay);
absl::StatusOr<Replay> ReplayFromJson(const nlohmann::json& json);

// Reads the file and makes its call on `device`. Errors: those of device.h; kInvalidArgument: not
// such a file.
absl::Status RunReplay(const std::string& file, Device& device);

}  // namespace fettle
