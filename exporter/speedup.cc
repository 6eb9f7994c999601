// SPDX-License-Identifier: Apache-2.0
#include "exporter/speedup.h"

#include <cmath>

#include "judge/accept.h"

namespace fettle {

Speedup SummarizeSpeedup(const Measurement& measurement) {
  constexpr double kTail = 0.025;
  const judge::ConfirmationDecision decision =
      judge::DecideConfirmation(measurement, /*k=*/1, /*aa_spread=*/0, judge::AcceptanceRule{});
  Speedup speedup;
  speedup.verdict = decision.record;
  if (decision.stats.blocks == 0) return speedup;
  speedup.ratio = std::exp(decision.stats.mean);
  speedup.low = std::exp(decision.stats.LowerBound(kTail));
  speedup.high = std::exp(decision.stats.UpperBound(kTail));
  return speedup;
}

}  // namespace fettle
