// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace fettle {

// A unified diff of two texts by lines with three lines of context, under the given names; empty
// when they are equal. Memory linear in the number of lines.
std::string UnifiedDiff(const std::string& from_name, const std::string& from,
                        const std::string& to_name, const std::string& to);

}  // namespace fettle
