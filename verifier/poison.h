// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/bound.h"

namespace fettle {

inline constexpr std::uint8_t kPoisonA = 0xFF;  // NaN for floats, -1 for integers.
inline constexpr std::uint8_t kPoisonB = 0x41;  // Finite.

// Elements of pure outputs that hold pattern A after a call over A, and pattern B after a call over
// B: nothing wrote them. "y: 3 of 64 elements were not written, the first is 61"; nothing when
// there are none. `a` and `b` as in RunObservation::outputs.
std::optional<std::string> FindSurvivingPoison(const BoundCase& bound_case,
                                               const std::vector<std::vector<std::uint8_t>>& a,
                                               const std::vector<std::vector<std::uint8_t>>& b);

}  // namespace fettle
