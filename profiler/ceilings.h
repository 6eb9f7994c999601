// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "device/device.h"
#include "profiler/roofline.h"

namespace fettle {

// Measures what the device reaches, by trusted code: memory by the best of several passes of
// reading and of copying, with every core (cpu), or of device copies; on GPUs also dense matrix
// multiplication (device/gpu_kernels.h, MatrixProbe), in bursts of about 2 ms on random values.
// Takes about a second. kResourceExhausted: not enough memory.
absl::StatusOr<Ceilings> MeasureCeilings(Device& device);

// Where StoredCeilings keeps those of a device, and what is there; nullopt: nothing that can be
// used.
std::filesystem::path CeilingsFile(const std::filesystem::path& folder, const DeviceInfo& device);
std::optional<Ceilings> KeptCeilings(const std::filesystem::path& file);

// Ceilings of one device with one driver, measured once and kept in `folder` with the device's
// identity and driver version. A file that is
// missing, damaged or of another driver is measured anew by `measure`.
absl::StatusOr<Ceilings> StoredCeilings(const std::filesystem::path& folder,
                                        const DeviceInfo& device,
                                        const std::function<absl::StatusOr<Ceilings>()>& measure);

// Each the higher of both: what a device reached once it can reach, whatever kept it from that at
// another time.
Ceilings Highest(const Ceilings& one, const Ceilings& other);
// Replaces what StoredCeilings keeps. Best effort: without the file the next process measures
// again.
void StoreCeilings(const std::filesystem::path& folder, const DeviceInfo& device,
                   const Ceilings& ceilings);

nlohmann::json ToJson(const Ceilings& ceilings);
absl::StatusOr<Ceilings> CeilingsFromJson(const nlohmann::json& json);

}  // namespace fettle
