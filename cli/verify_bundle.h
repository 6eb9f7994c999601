// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "cli/local.h"
#include "exporter/verify.h"

namespace fettle {

// One variant's rerun, or why there was none.
struct RerunReport {
  std::string variant;
  std::string skipped;  // Nonempty: this machine cannot run it.
  RerunOutcome outcome;
};

// Repeats verification and measurement of every variant of a whole bundle on this machine and adds
// the evidence to the folder `path`.
absl::StatusOr<std::vector<RerunReport>> RerunBundle(Context& context, const LocalFlags& flags,
                                                     const std::string& path,
                                                     const BundleFiles& files,
                                                     const BundleReport& report);

}  // namespace fettle
