// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace fettle {

// What ToJson(CodeFacts) holds, for a terminal of `width` columns: per kernel one line for each
// group of facts, then its instructions by class. Unknown facts are left out.
std::string FactsText(const nlohmann::json& facts, int width);

}  // namespace fettle
