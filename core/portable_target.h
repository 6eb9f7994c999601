// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <absl/status/statusor.h>

#include "core/target.h"

namespace fettle {

// Whether the target is PTX ("compute_90"): no device's own architecture; the driver compiles it
// for any later one. Made for exports alone. There is none with features of one architecture
// (compute_90a), since it would run there alone.
bool IsPortable(const Target& target);

// FindTarget for what a device can be. kInvalidArgument: PTX.
absl::StatusOr<Target> FindDeviceTarget(std::string_view name);

}  // namespace fettle
