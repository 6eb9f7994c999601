// SPDX-License-Identifier: Apache-2.0
#include "cli/budget_flags.h"

#include <cmath>

#include <fmt/format.h>

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
  constexpr auto kLeftOut = static_cast<double>(kOpen);
  struct Row {
    const char* flag;
    const char* nothing;
    double limit, unit, least;  // `unit`: of the wire's in one of the flag's.
  };
  const Row rows[] = {
      {"--candidates", "try nothing", static_cast<double>(candidates), 1, 1},
      {"--minutes", "end at once", minutes, 60e3, 1},
      {"--gpu-seconds", "run nothing", gpu_seconds, 1e3, 1},
      {"--tokens", "ask no model", static_cast<double>(tokens), 1, 1},
      {"--usd", "ask no model", usd, 1, 0},
  };
  for (const Row& row : rows) {
    if (row.limit == kLeftOut) continue;
    if (row.limit == 0) {
      return absl::InvalidArgumentError(
          fmt::format("{}: 0 would {}; give {}, or leave it out for no limit", row.flag,
                      row.nothing, row.flag == rows[0].flag ? "at least 1" : "more"));
    }
    if (!(row.limit > 0) || row.limit > kMost) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the limit is negative, too large or not a number; give a positive one, "
                      "or leave it out",
                      row.flag));
    }
    // Rounded to nothing it would be no limit.
    if (row.limit * row.unit < row.least) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {:g} is less than can be measured; give more", row.flag, row.limit));
    }
  }
  const auto wire = [](double limit, double unit) {
    return limit == kLeftOut ? 0 : std::llround(limit * unit);
  };
  v1::Budget budget;
  budget.set_candidates(candidates == kOpen ? 0 : candidates);
  budget.set_wall_ms(wire(minutes, 60e3));
  budget.set_device_ms(wire(gpu_seconds, 1e3));
  budget.set_tokens(tokens == kOpen ? 0 : tokens);
  budget.set_usd(usd == kLeftOut ? 0 : usd);
  return budget;
}

}  // namespace fettle
