// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <absl/status/statusor.h>

namespace fettle {

// SHA-256 over the names and texts of the headers that cpu kernels are compiled with.
const std::string& RuntimeHeadersDigest();

// Writes those headers, which are built into this program, to <cache_dir>/<digest> unless they are
// there, and returns that folder. Safe when several processes do it at once.
absl::StatusOr<std::string> UnpackRuntimeHeaders(const std::string& cache_dir);

}  // namespace fettle
