// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/work_unit.h"
#include "exporter/bundle.h"

namespace fettle {

// Something wrong with a bundle.
struct BundleProblem {
  std::string path;  // The file concerned, relative to the bundle.
  std::string message;
};

struct BundleReport {
  std::vector<BundleProblem> problems;      // Empty: the bundle is whole.
  std::vector<std::string> notes;           // What was not checked, and why.
  std::vector<VariantProvenance> variants;  // Those whose evidence could be read.
  nlohmann::json manifest;                  // Null where it could not be read.
  std::string signer;                       // Key id; empty: not signed.
  int files = 0;
  int reruns = 0;
};

struct BundleVerifyOptions {
  // A trusted Ed25519 public key, PEM: a bundle that it did not sign is a problem. Empty: whoever
  // signed will do, and so will nobody.
  std::string trusted_signer;
};

// Checks a bundle's bytes against themselves: checksums (every changed, missing and extra file is
// named), their signature, schema, that every file the manifest names is there, that code objects
// and sources are those of the evidence, that code objects hold what the manifest says of them,
// that the figures follow from the raw samples, and that every generated file, the manifest among
// them, is what the evidence gives. Needs no device and no compiler.
BundleReport VerifyBundle(const BundleFiles& files, const BundleVerifyOptions& options);
inline BundleReport VerifyBundle(const BundleFiles& files) {
  return VerifyBundle(files, BundleVerifyOptions());
}

// As VerifyBundle, for who goes on only with a whole bundle. kDataLoss names the first problem;
// `attempt` as "import /path".
absl::StatusOr<BundleReport> RequireWholeBundle(const BundleFiles& files, std::string_view attempt);

// The unit that repeats verification and measurement of one variant. The task's files must be put
// into the blob store that runs it (digest `task_blob`).
struct Rerun {
  WorkUnit unit;
  std::string task_blob_bytes;
};
absl::StatusOr<Rerun> MakeRerun(const VariantProvenance& variant, const BundleFiles& files,
                                std::uint64_t seed, std::uint64_t held_out_seed);
// The same on another target than the variant's own: what was compiled_only there becomes run.
absl::StatusOr<Rerun> MakeRerun(const VariantProvenance& variant, const BundleFiles& files,
                                const std::string& target, std::uint64_t seed,
                                std::uint64_t held_out_seed);

// What a rerun shows.
struct RerunOutcome {
  std::string target;
  bool passed = false;
  bool emulated = false;  // Verified under an emulator and not measured, which passes.
  // Neither: it was right, and how fast is left open (LeavesOpen). Says nothing against the
  // variant.
  bool undecided = false;
  std::string reason;  // Why it did not pass, for a person; empty when passed.
  double ratio = 0, ratio_low = 0, ratio_high = 0;
  int objects_equal = 0, objects_different = 0;  // Rebuilt code objects against the bundle's.
  nlohmann::json evidence;                       // The document to add to the bundle.
};
RerunOutcome JudgeRerun(const VariantProvenance& variant, const std::string& target,
                        const UnitResult& result);
inline RerunOutcome JudgeRerun(const VariantProvenance& variant, const UnitResult& result) {
  return JudgeRerun(variant, variant.target, result);
}

}  // namespace fettle
