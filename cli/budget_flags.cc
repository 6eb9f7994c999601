// SPDX-License-Identifier: Apache-2.0
#include "cli/budget_flags.h"

#include <cmath>

namespace fettle {

void BudgetFlags::Declare(FlagSet& flags) {
  flags.Flag("--candidates", "N", &candidates, "evaluate at most N candidates");
  flags.Flag("--minutes", "M", &minutes, "run for at most M minutes");
  flags.Flag("--gpu-seconds", "S", &gpu_seconds, "use at most S seconds of the device");
  flags.Flag("--tokens", "N", &tokens, "use at most N language model tokens");
  flags.Flag("--usd", "X", &usd, "spend at most X US dollars");
}

absl::StatusOr<v1::Budget> BudgetFlags::ToWire() const {
  constexpr double kMost = 1e12;
  if (candidates == 0) {
    return absl::InvalidArgumentError(
        "--candidates: 0 would try nothing; give at least 1, or leave it out for no limit");
  }
  const double most_candidates = candidates == -1 ? 0 : static_cast<double>(candidates);
  for (const double limit :
       {most_candidates, minutes, gpu_seconds, static_cast<double>(tokens), usd}) {
    if (!(limit >= 0) || limit > kMost) {
      return absl::InvalidArgumentError(
          "budget: a limit is negative or not a number; give a positive one, or leave it out");
    }
  }
  v1::Budget budget;
  budget.set_candidates(candidates == -1 ? 0 : candidates);
  budget.set_wall_ms(std::llround(minutes * 60e3));
  budget.set_device_ms(std::llround(gpu_seconds * 1e3));
  budget.set_tokens(tokens);
  budget.set_usd(usd);
  return budget;
}

}  // namespace fettle
