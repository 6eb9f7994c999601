// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <absl/status/statusor.h>

#include "cli/flags.h"
#include "fettle/v1/optimizer.pb.h"

namespace fettle {

// The limits of a job; 0 leaves one open, and of the candidates a negative number.
struct BudgetFlags {
  std::int64_t candidates = -1;
  double minutes = 0;
  double gpu_seconds = 0;
  std::int64_t tokens = 0;
  double usd = 0;

  void Declare(FlagSet& flags);
  bool empty() const {
    return candidates < 0 && minutes == 0 && gpu_seconds == 0 && tokens == 0 && usd == 0;
  }
  // kInvalidArgument: a negative limit, or no candidates at all.
  absl::StatusOr<v1::Budget> ToWire() const;
};

}  // namespace fettle
