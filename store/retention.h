// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include <absl/status/statusor.h>

#include "store/store.h"

namespace fettle {

struct RetentionOptions {
  std::chrono::hours min_age{0};  // Results younger than this keep their samples.
  bool dry_run = false;
};

struct RetentionReport {
  std::int64_t kept = 0, thinned = 0;  // Results.
  std::int64_t freed_bytes = 0;        // In the database, reused by later rows.
  std::int64_t transcripts = 0;        // Conversations let go; CollectGarbage removes their blobs.
};

// Drops the raw timing samples of candidates that did not become variants, and the conversations
// that they came from, of jobs that have ended: medians, intervals and block ratios stay, and so
// does everything that a variant's provenance holds. A second run finds nothing more to do.
absl::StatusOr<RetentionReport> ThinSamples(Store& store, const RetentionOptions& options,
                                            std::int64_t now_ns);

}  // namespace fettle
