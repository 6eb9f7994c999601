// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <string>

#include <absl/status/statusor.h>

#include "server/optimizer_calls.h"
#include "store/totals.h"

namespace fettle {

// What Prometheus reads: queue, leases, verdicts, time of devices, compile cache, spending on
// models, workers, the server's own process (docs/metrics.md lists the names). Thread-safe.
class Metrics {
 public:
  // `calls` outlives this object.
  explicit Metrics(const OptimizerCalls& calls) : calls_(calls) {}

  // In the text exposition format 0.0.4. Evaluations are read once each, so that a scrape stays
  // cheap however many there are.
  absl::StatusOr<std::string> Text();

 private:
  const OptimizerCalls& calls_;
  std::mutex mutex_;
  EvaluationTotals evaluations_;  // Guarded by mutex_.
};

// A label's value, escaped for the text format.
std::string EscapeLabel(const std::string& value);

}  // namespace fettle
