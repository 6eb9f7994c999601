// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <absl/status/statusor.h>

#include "core/clock.h"
#include "device/device.h"
#include "device/runner_session.h"

namespace fettle {

// Carries out one TimeRequest inside the runner: inputs, rotated buffers, interleaved samples, and
// the figures that the judge's statistics give. `memory_bytes` bounds the rotation (0: no bound).
// Errors are those of device.h.
absl::StatusOr<TimeObservation> TimeOneCase(Device& device, Clock& clock,
                                            const TimeRequest& request, DeviceModule& a,
                                            DeviceModule& b, std::int64_t memory_bytes);

}  // namespace fettle
