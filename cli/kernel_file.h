// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

namespace fettle {

inline constexpr std::int64_t kMaxKernelBytes = 4 << 20;

// A proposal's .json: its block, which may name its source's file beside it (`source_file`) instead
// of holding the text. kInvalidArgument: no JSON object; else ReadFile's errors.
absl::StatusOr<nlohmann::json> ReadKernelBlock(const std::string& path);

// "BLOCK=128" into `values`. kInvalidArgument says what to write.
absl::Status SetTunableValue(const std::string& text, nlohmann::json& values);

}  // namespace fettle
