// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

namespace fettle {

// A file of data/ that is part of the program, by its path below data/ or, for data/agent, by its
// name ("rules.md", "cards/sm_90a.json"). FETTLE_CHECK: no such file.
std::string_view AgentData(std::string_view name);
// The names of all.
std::vector<std::string_view> AgentDataNames();

}  // namespace fettle
