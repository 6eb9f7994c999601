// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "core/bound.h"
#include "device/device.h"

namespace fettle {

// Rows of a tensor that lies at `offset` of `buffer`, packed: dense bytes of the rows asked for,
// one after another (ascending row numbers). `rows` empty: of the whole tensor. Errors are those of
// device.h; kInvalidArgument for a row that the tensor does not have.
absl::StatusOr<std::vector<std::uint8_t>> ReadRows(Device& device, const BoundTensor& tensor,
                                                   const DeviceBuffer& buffer, std::int64_t offset,
                                                   std::span<const std::int64_t> rows);

}  // namespace fettle
