// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

namespace fettle {

// The entries of a one-dimensional little-endian integer .npy file. kInvalidArgument otherwise.
absl::StatusOr<std::vector<std::int64_t>> ReadNpyList(std::string_view bytes);

}  // namespace fettle
