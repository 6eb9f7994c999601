// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include <absl/status/statusor.h>

#include "store/store.h"

namespace fettle {

struct GcOptions {
  // Blobs younger than this stay: an upload may precede the row that names it.
  std::chrono::hours min_age{1};
  bool dry_run = false;
};

struct GcReport {
  std::int64_t kept = 0, removed = 0;
  std::int64_t removed_bytes = 0;  // On disk.
};

// Removes blobs that nothing needs: what no row names, and the code objects of candidates of ended
// jobs that did not become variants (their results stay, so a resumed job does not need them).
// Tasks, and all that any variant's provenance names, always stay. `store` is open, so no server
// runs.
absl::StatusOr<GcReport> CollectGarbage(Store& store, const GcOptions& options);

}  // namespace fettle
