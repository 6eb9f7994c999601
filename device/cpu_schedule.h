// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace fettle {

// The order in which ready threads of a block, and the blocks, run.
enum class CpuSchedule { kForward, kReverse, kRandom };

// "forward", "reverse", "random".
inline std::optional<CpuSchedule> ParseCpuSchedule(std::string_view name) {
  if (name == "forward") return CpuSchedule::kForward;
  if (name == "reverse") return CpuSchedule::kReverse;
  if (name == "random") return CpuSchedule::kRandom;
  return std::nullopt;
}

}  // namespace fettle
