// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <absl/status/statusor.h>

#include "core/target.h"

namespace fettle {

inline constexpr std::string_view kSpinSymbol = "fettle_spin";

// A loadable image with one kernel, fettle_spin(unsigned long long ns, unsigned long long* out),
// that one thread keeps running for `ns` of the device's own constant-rate timer and that then
// writes the time it saw. PTX on NVIDIA, a code object on AMD. kNotFound: none for this target.
absl::StatusOr<std::string> SpinImage(const Target& target);

}  // namespace fettle
