// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace fettle {

// SHA-256 as 64 lower-case hex digits.
std::string Sha256Hex(std::string_view bytes);

// Canonical JSON (RFC 8785): sorted keys, shortest numbers, no white space. `json` must hold no NaN
// or infinity (FETTLE_CHECK).
std::string CanonicalJson(const nlohmann::json& json);

}  // namespace fettle
