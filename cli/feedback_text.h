// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace fettle {

// agent/feedback.h's document for a person: verdict, diagnostics, wrong cases, speed per case.
std::string FeedbackText(const nlohmann::json& feedback, int width);
// The bar in one or two lines: incumbent, what to beat, headroom, budget left.
std::string BarText(const nlohmann::json& bar);

}  // namespace fettle
