// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <absl/status/status.h>

#include "core/target.h"
#include "device/device.h"

namespace fettle {

// kInvalidArgument, naming the dimension and the limit, when `config` cannot be launched on
// `target`; `static_shared_bytes` is what the function uses beside config.shared_bytes.
absl::Status CheckLaunch(const LaunchConfig& config, const Target& target,
                         std::int64_t static_shared_bytes);

// kInvalidArgument when [offset, offset + size) is not inside `buffer`; `what` names the call.
absl::Status CheckRange(const DeviceBuffer& buffer, std::int64_t offset, std::int64_t size_bytes,
                        std::string_view what);

}  // namespace fettle
