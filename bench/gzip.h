// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <absl/status/statusor.h>

namespace fettle {

// The contents of a file, unpacked where it is gzip. kNotFound, kDataLoss.
absl::StatusOr<std::string> ReadMaybeGzip(const std::string& path);

}  // namespace fettle
