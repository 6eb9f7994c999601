// SPDX-License-Identifier: Apache-2.0
#pragma once

// One call of a kernel as a file, so that a program outside the sandbox, a vendor's profiler or
// sanitizer, can run it once more. Nothing is judged by what such a call computes.

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

// Reads the files and makes their calls on `device`, one after another, each in memory of exactly
// the sizes that its case has and where only inputs are written: without the guards and poison of a
// verification, which would hide from a sanitizer what it looks for. Errors: those of device.h;
// kInvalidArgument: not such a file.
absl::Status RunReplays(const std::vector<std::string>& files, Device& device);

}  // namespace fettle
