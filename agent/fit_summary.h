// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tuner learned of one kernel's tunables, in words for whoever wrote the kernel.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "core/task.h"
#include "core/verdict.h"

namespace fettle {

// Not thread-safe.
class FitSummary {
 public:
  // `ratio`: over the denominator; 0: not measured, and `verdict` says why.
  void Add(const TunableValues& values, Verdict verdict, double ratio);

  // Of all added; 0: none was measured.
  double best_ratio() const { return best_ratio_; }
  // The best values, the best ratio of each value of each tunable, and what failed. Empty where
  // fewer than two were added. At most `most_bytes`.
  std::string Text(std::size_t most_bytes = 1'500) const;

 private:
  int count_ = 0;
  double best_ratio_ = 0;
  TunableValues best_;
  // Best ratio by tunable and value; 0: whatever had it failed.
  std::map<std::string, std::map<std::int64_t, double>> ratios_;
  std::map<std::string, int> failed_;  // By verdict.
};

}  // namespace fettle
