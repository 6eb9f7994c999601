// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <absl/status/statusor.h>

#include "device/device.h"

namespace fettle {

// Opens a device by id, inside the runner: "cpu", "cuda:0", "hip:0", or "null" for tests.
// kInvalidArgument: no such kind. kUnavailable: no driver or no such device.
absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& id);

}  // namespace fettle
