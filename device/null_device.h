// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "device/device.h"

namespace fettle {

// A device that keeps memory, checks launches against its limits and runs nothing, for tests.
// Deterministic: every launch takes kNullLaunchNs on its own clock, which only launches, Spin and
// nothing else advance. Load accepts any bytes and offers exactly the symbols it was given.
inline constexpr double kNullLaunchNs = 1000;

std::unique_ptr<Device> MakeNullDevice();

}  // namespace fettle
