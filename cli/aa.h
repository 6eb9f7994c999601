// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "cli/local.h"

namespace fettle {

struct AaOptions {
  std::int64_t candidates = 20;
  std::string target = "auto";
  std::string folder;  // Where figures are kept, one file per device and driver.
};

// How often this device, with the rules of a job, would call a kernel faster than itself: takes
// candidates that are the baseline of a small built-in task through evaluation and, where one looks
// faster, confirmation; each in modules loaded anew and memory allocated anew. Adds to what is kept
// of the device and returns all of it: {device, driver, candidates, confirmations, false_wins,
// spread_median, spread_p95, ratio_low, ratio_high, ratios}.
//
// kUnavailable: no such device, or nothing could be measured on it.
absl::StatusOr<nlohmann::json> MeasureAa(Context& context, LocalLab& lab, const AaOptions& options);

// One line for a person.
std::string AaText(const nlohmann::json& kept);

}  // namespace fettle
