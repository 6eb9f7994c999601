// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "device/device.h"
#include "profiler/roofline.h"

namespace fettle {

// Measures what the device's memory reaches, by trusted code: the best of several passes of reading
// and of copying, with every core (cpu), or of device copies. Takes about a second.
// kResourceExhausted: not enough memory.
absl::StatusOr<Ceilings> MeasureCeilings(Device& device);

// Ceilings of one device with one driver, measured once and kept in `folder`. A file that is
// missing, damaged or of another driver is measured anew by `measure`.
absl::StatusOr<Ceilings> StoredCeilings(const std::filesystem::path& folder,
                                        const DeviceInfo& device,
                                        const std::function<absl::StatusOr<Ceilings>()>& measure);

nlohmann::json ToJson(const Ceilings& ceilings);
absl::StatusOr<Ceilings> CeilingsFromJson(const nlohmann::json& json);

}  // namespace fettle
