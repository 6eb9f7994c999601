// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/evidence.h"
#include "core/verdict.h"

namespace fettle {

// A measurement as one figure.
struct Speedup {
  double ratio = 1;          // Weighted geometric mean over the timed cases.
  double low = 1, high = 1;  // Two-sided 95 % t interval.
  VerdictRecord verdict;     // What a first confirmation with these data would say.
};

Speedup SummarizeSpeedup(const Measurement& measurement);

}  // namespace fettle
