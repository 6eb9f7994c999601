// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fettle {

// Names of the `__global__` functions of a source that are not templates, in order, each once.
// Comments and literals are skipped; macros are not expanded.
std::vector<std::string> FindPlainKernels(std::string_view source);

}  // namespace fettle
