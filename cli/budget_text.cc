// SPDX-License-Identifier: Apache-2.0
#include "cli/budget_text.h"

#include <vector>

#include <fmt/format.h>

#include "cli/format.h"
#include "cli/terminal.h"

namespace fettle {
namespace {

struct BudgetKind {
  const char* name;
  double spent, limit;
  int digits;  // After the point.
};

std::vector<BudgetKind> BudgetKinds(const v1::Budget& spent, const v1::Budget& limit) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  return {{"candidates", real(spent.candidates()), real(limit.candidates()), 0},
          {"minutes", real(spent.wall_ms()) / 60e3, real(limit.wall_ms()) / 60e3, 1},
          {"device seconds", real(spent.device_ms()) / 1e3, real(limit.device_ms()) / 1e3, 1},
          {"tokens", real(spent.tokens()), real(limit.tokens()), 0},
          {"USD", spent.usd(), limit.usd(), 3}};
}

std::string Amount(double value, int digits) {
  if (digits == 0) return FormatCount(static_cast<std::int64_t>(value));
  return fmt::format("{:.{}f}", value, digits);
}

}  // namespace

std::string SpentText(const v1::Budget& spent, const v1::Budget& limit) {
  std::string text;
  for (const BudgetKind& kind : BudgetKinds(spent, limit)) {
    if (kind.spent <= 0 && kind.limit <= 0) continue;
    text += fmt::format("{}{}{} {}", text.empty() ? "" : ", ", Amount(kind.spent, kind.digits),
                        kind.limit > 0 ? " of " + Amount(kind.limit, kind.digits) : "", kind.name);
  }
  return text;
}

std::string NearestBudget(const v1::Budget& spent, const v1::Budget& limit) {
  BudgetKind nearest{"", 0, 0, 0};
  double fraction = -1;
  for (const BudgetKind& kind : BudgetKinds(spent, limit)) {
    if (kind.limit > 0 && kind.spent / kind.limit > fraction) {
      nearest = kind;
      fraction = kind.spent / kind.limit;
    }
  }
  if (fraction < 0) return "";
  const auto amount = [&](double value) {
    return nearest.digits == 0 ? FormatCount(static_cast<std::int64_t>(value))
                               : fmt::format("{:.4g}", value);
  };
  return fmt::format("{} {}/{} {}", Bar(fraction, 12), amount(nearest.spent), amount(nearest.limit),
                     nearest.name);
}

}  // namespace fettle
