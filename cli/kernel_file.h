// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <absl/status/status.h>
#include <nlohmann/json.hpp>

namespace fettle {

inline constexpr std::int64_t kMaxKernelBytes = 4 << 20;

// "BLOCK=128" into `values`. kInvalidArgument says what to write.
absl::Status SetTunableValue(const std::string& text, nlohmann::json& values);

}  // namespace fettle
