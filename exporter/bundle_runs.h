// SPDX-License-Identifier: Apache-2.0
#pragma once

// Builds that were only compiled at export and ran on someone's device since: `fettle verify
// --rerun` leaves evidence of it beside the bundle, and `fettle export --from` takes it in.

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>

#include "core/work_unit.h"
#include "exporter/evidence_check.h"

namespace fettle {

// Where a bundle keeps them.
inline constexpr std::string_view kRunFolder = "evidence/runs/";

// One rerun that passed, of one variant on another target than its own.
struct BundleRun {
  std::string path;  // Below kRunFolder.
  std::string variant, target;
  std::string status;  // "run", or "emulated", whose times do not count.
  std::string device;  // Model, as the rerun's measurement names it.
  double ratio = 0, ratio_low = 0, ratio_high = 0;  // 0 where it was emulated.
  VerificationReport verification;
  Measurement measurement;                               // Empty where it was emulated.
  std::set<std::pair<std::string, std::string>> builds;  // Build key, digest of the code object.
};

// Reads reruns by path and checks each one from its raw samples upwards: it passed, its figures
// follow from the samples, and every case of the task for the target was verified and, where it is
// timed, measured. kFailedPrecondition names the path and the reason.
absl::StatusOr<std::vector<BundleRun>> ReadRuns(const std::map<std::string, std::string>& documents,
                                                std::span<const ProvenVariant> variants);

// The run that a build's exact bytes had; null: none.
const BundleRun* FindRun(const std::vector<BundleRun>& runs, const std::string& variant,
                         const std::string& target, const std::string& key,
                         const std::string& sha256);

}  // namespace fettle
