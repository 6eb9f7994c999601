// SPDX-License-Identifier: Apache-2.0
#include "agent/fit_summary.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/text.h"

namespace fettle {

void FitSummary::Add(const TunableValues& values, Verdict verdict, double ratio) {
  ++count_;
  for (const auto& [name, value] : values) {
    double& best = ratios_[name][value];
    best = std::max(best, ratio);
  }
  if (ratio <= 0) ++failed_[std::string(VerdictName(verdict))];
  if (ratio > best_ratio_) {
    best_ratio_ = ratio;
    best_ = values;
  }
}

std::string FitSummary::Text(std::size_t most_bytes) const {
  if (count_ < 2) return "";
  std::string text = fmt::format("The tuner tried {} values of its tunables.", count_);
  if (best_ratio_ > 0) {
    text += fmt::format(" Best, {:.3f}x over the denominator:", best_ratio_);
    for (const auto& [name, value] : best_) text += fmt::format(" {}={}", name, value);
    text += '.';
  }
  for (const auto& [verdict, count] : failed_) text += fmt::format(" {} {}.", count, verdict);
  for (const auto& [name, ratios] : ratios_) {
    if (ratios.size() < 2) continue;
    text += fmt::format("\n{}, at best:", name);
    for (const auto& [value, ratio] : ratios) {
      text +=
          ratio > 0 ? fmt::format(" {} {:.3f}x", value, ratio) : fmt::format(" {} failed", value);
    }
  }
  return CutText(text, most_bytes);
}

}  // namespace fettle
