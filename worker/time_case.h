// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <absl/status/statusor.h>

#include "core/clock.h"
#include "device/device.h"
#include "device/runner_session.h"
#include "profiler/case_pair.h"
#include "verifier/case_inputs.h"

namespace fettle {

// Carries out one TimeRequest inside the runner: inputs, rotated buffers, interleaved samples, and
// the figures that the judge's statistics give. `memory_bytes` bounds the rotation (0: no bound).
// Where outputs are to be kept they are put into `*kept`. Errors are those of device.h and of
// MakeInputs.
absl::StatusOr<TimeObservation> TimeOneCase(Device& device, Clock& clock, CaseInputCache& cache,
                                            const TimeRequest& request, DeviceModule& a,
                                            DeviceModule& b, std::int64_t memory_bytes,
                                            std::unique_ptr<KeptOutputs>* kept);

}  // namespace fettle
