// SPDX-License-Identifier: Apache-2.0
#pragma once

// Numbers and times as a person reads them. One place, so that every command agrees.

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace fettle {

std::string FormatRatio(double ratio);                              // "1.312x"; "-" for 0.
std::string FormatInterval(double ratio, double low, double high);  // "1.312x [1.300, 1.325]"
std::string FormatDuration(double ns);                              // "12.3 us", "2.01 s"
std::string FormatRate(double per_s, const std::string& unit);      // "1.23 GB/s"
std::string FormatBytes(double bytes);                              // "12.3 kB"
std::string FormatPercent(double fraction);                         // "43 %"
std::string FormatCount(std::int64_t count);                        // "12,345"
std::string FormatAge(std::int64_t seconds);                        // "3 min", "2 d"
// {"BLOCK": 128, "ITEMS": 4} as "BLOCK=128 ITEMS=4"; anything else as JSON; empty: "-".
std::string FormatValues(const nlohmann::json& values);
std::string FormatValuesText(const std::string& values_json);
// The first 12 characters of an id or digest.
std::string ShortId(const std::string& id);

// Members of a JSON object without exceptions: the default where absent or of another type.
std::string TextOf(const nlohmann::json& json, const std::string& key, std::string otherwise = "");
double NumberOf(const nlohmann::json& json, const std::string& key, double otherwise = 0);
const nlohmann::json& MemberOf(const nlohmann::json& json,
                               const std::string& key);  // null if none.

}  // namespace fettle
