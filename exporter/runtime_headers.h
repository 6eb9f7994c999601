// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace fettle {

// A file of exporter/runtime, which is part of the program. The name must be one of them.
std::string RuntimeFile(std::string_view name);

// The headers that every bundle carries, by path.
std::map<std::string, std::string> RuntimeHeaderFiles();

}  // namespace fettle
