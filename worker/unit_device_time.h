// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <absl/status/status.h>

namespace fettle {

// Device time that a unit took before it ended with this error of UnitRunner::Run; at most, where
// what it ran did not say. It travels in the error.
absl::Status WithDeviceNs(absl::Status status, std::int64_t device_ns);
std::int64_t DeviceNsOf(const absl::Status& status);

}  // namespace fettle
