// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace fettle {

// The first 16 digits of a library's build: its GNU build id, else the digest of the whole file;
// "unknown" when it cannot be read.
std::string BuildIdOf(const std::string& file);

}  // namespace fettle
