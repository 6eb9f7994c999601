// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include <absl/status/statusor.h>

#include "cli/flags.h"
#include "fettle/v1/optimizer.pb.h"

namespace fettle {

// The limits of a job; kOpen leaves one open. On the wire 0 does, so that a 0 that somebody typed
// is refused: it would mean the opposite of what it says.
struct BudgetFlags {
  static constexpr std::int64_t kOpen = std::numeric_limits<std::int64_t>::min();
  std::int64_t candidates = kOpen;
  double minutes = static_cast<double>(kOpen);
  double gpu_seconds = static_cast<double>(kOpen);
  std::int64_t tokens = kOpen;
  double usd = static_cast<double>(kOpen);

  void Declare(FlagSet& flags);
  bool empty() const {
    const BudgetFlags open;
    return candidates == kOpen && minutes == open.minutes && gpu_seconds == open.gpu_seconds &&
           tokens == kOpen && usd == open.usd;
  }
  // kInvalidArgument names the limit that is 0, negative or no number.
  absl::StatusOr<v1::Budget> ToWire() const;
};

}  // namespace fettle
