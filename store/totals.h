// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sums over everything stored, for what watches the service.

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include <absl/status/statusor.h>

#include "store/database.h"

namespace fettle {

struct StoreTotals {
  std::map<std::string, std::int64_t> jobs;      // By state.
  std::map<std::string, std::int64_t> verdicts;  // Of candidates.
  std::map<std::string, std::int64_t> variants;  // By status.
  std::int64_t candidates = 0;
  std::int64_t agent_calls = 0, tokens = 0;
  double usd = 0;
};
absl::StatusOr<StoreTotals> ReadStoreTotals(Connection& db);

// What stored evaluations add up to; grows by those that were stored since.
struct EvaluationTotals {
  struct Sum {
    std::int64_t count = 0, device_ns = 0;
  };
  struct Compiles {
    std::int64_t count = 0, elapsed_ns = 0;
  };
  std::map<std::tuple<std::string, std::string, std::string>, Sum> by_device;  // Kind, model, host.
  std::map<bool, Compiles> compiles;  // By whether the cache had them.
  std::int64_t last_row = 0;          // Of the evaluations that are in it.
};
absl::Status AddEvaluations(Connection& db, EvaluationTotals& totals);

}  // namespace fettle
