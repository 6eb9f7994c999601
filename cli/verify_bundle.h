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
  std::string variant, target;
  std::string skipped;  // Nonempty: this machine cannot run it.
  RerunOutcome outcome;
  // What the evidence says on that target; zeros where it has no measurement there.
  double exported = 0, exported_low = 0, exported_high = 0;
};

// "1.83x [1.45, 2.31]; the evidence says 3.09x [2.65, 3.61], and the intervals do not meet".
std::string RerunText(const RerunReport& rerun);

// Repeats verification and measurement of every variant of a whole bundle on this machine and adds
// the evidence to the folder `path`.
absl::StatusOr<std::vector<RerunReport>> RerunBundle(Context& context, const LocalFlags& flags,
                                                     const std::string& path,
                                                     const BundleFiles& files,
                                                     const BundleReport& report);

// What compiling a bundle's sources again gave.
struct RebuildReport {
  int equal = 0;
  std::vector<std::string> different;  // Objects that the same compiler makes otherwise: paths.
  std::vector<std::string> notes;  // Which objects were not compared: another compiler, or none.
};

// Compiles every object of a whole bundle again. Objects of another compiler than the one here are
// compared with nothing; the note says which compiler differs.
absl::StatusOr<RebuildReport> RebuildBundle(Context& context, const LocalFlags& flags,
                                            const BundleFiles& files);

}  // namespace fettle
