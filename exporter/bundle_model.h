// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a bundle holds, worked out from evidence: the one source of its manifest and of all that is
// generated beside it.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/dtype.h"
#include "exporter/bundle_runs.h"
#include "exporter/evidence_check.h"
#include "exporter/portfolio.h"

namespace fettle {

// The kernel id of the task's baseline, which serves what no variant takes.
inline constexpr char kBaselineId[] = "baseline";

// A code object beyond those of the evidence: the baseline, or a variant for another target.
struct ExtraBuild {
  std::string kernel;  // A variant's id, or kBaselineId.
  std::string target;
  std::string key;  // Task::BuildInputs::key.
  std::string compiler;
  std::string machine;  // cpu: the processor model that it was compiled for.
  std::vector<std::string> entries, symbols;
  nlohmann::json facts;
  std::string code_object;  // The bytes.
};

// What an export adds to the evidence of its variants.
struct BundleExtras {
  std::string version = "1.0.0";  // Of the bundle, as CMake reads it.
  std::vector<ExtraBuild> builds;
  std::map<std::string, std::string> vectors;  // Test vectors by path below tests/vectors/.
  std::map<std::string, std::string> runs;     // Reruns taken in, by path below kRunFolder.
};

// One case's choice of types and of specialized dims.
struct BuildSelector {
  std::map<std::string, DType> types;
  std::map<std::string, std::int64_t> special;
  bool operator==(const BuildSelector&) const = default;
  auto operator<=>(const BuildSelector&) const = default;
};

struct BundleBuild {
  std::string kernel, target, status, key, compiler, machine;
  std::vector<std::pair<std::string, std::string>> macros;
  std::vector<std::string> entries, symbols;
  nlohmann::json facts;
  std::string path, sha256;
  std::size_t bytes = 0;
  bool waits = false;  // cpu: barriers or warp operations may be reached.
  // The calls that this object serves. None: held-out cases alone needed it, so it is kept as
  // evidence, without its macros, and no operator uses it.
  std::vector<BuildSelector> selectors;
};

// The sizes that one combination of types and specialized dims was tested with.
struct Envelope {
  struct Range {
    std::int64_t min = 0, max = 0, multiple_of = 1;
    bool operator==(const Range&) const = default;
  };
  BuildSelector selector;
  std::map<std::string, Range> dims;  // Dims that are no lists.
  // By tensor argument, the most elements (product of the shape; 0 where null) of one case, which
  // no call may exceed: sizes that were each tested need not have been tested together. Of an
  // array, all members count together, and in `member_elements` the largest of any one.
  std::map<std::string, std::int64_t> elements, member_elements;
  std::map<std::string, std::pair<double, double>> scalars;  // `per_case` ones.
  bool operator==(const Envelope&) const = default;
};

struct BundleKernel {
  std::string id;
  KernelSpec kernel;
  TunableValues values;
  const ProvenVariant* variant = nullptr;  // Null: the baseline.
  std::vector<Envelope> envelopes;         // Empty for the baseline: it takes every legal call.
};

// How a target's calls are served: the same rows as the generated dispatcher's.
struct SelectionRow {
  enum class Kind { kExact, kBucket, kGeneric };
  Kind kind = Kind::kGeneric;
  std::map<std::string, DType> types;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> dims;  // From, to, both included.
  std::vector<int> order;                                             // Kernels, best first.
};
struct TargetSelection {
  std::string target;
  std::vector<SelectionRow> rows;
  std::vector<int> members;                  // Kernels of the portfolio.
  double mean_regret = 0, worst_regret = 0;  // exp(.) - 1 over the timed cases.
};

struct BundleModel {
  std::shared_ptr<const Task> task;
  std::vector<BundleKernel> kernels;  // Variants by id, then the baseline.
  std::vector<BundleBuild> builds;
  std::vector<std::string> targets;  // Those that ran first, then by name, PTX last.
  std::vector<TargetSelection> selection;
  std::vector<BundleRun> runs;
  std::string version, digest;  // Digest: 64 hex digits over everything that is not derived.

  std::string short_digest() const { return digest.substr(0, 8); }
  int KernelIndex(const std::string& id) const;  // -1: none.
};

// `variants` must outlive the model. `object_of` gives the bytes of a code object by its digest.
// kInvalidArgument: extras that belong to none of the variants, or that no case needs.
// kFailedPrecondition: a rerun that does not hold (ReadRuns).
absl::StatusOr<BundleModel> MakeBundleModel(
    std::span<const ProvenVariant> variants, const BundleExtras& extras,
    const std::function<absl::StatusOr<std::string>(const std::string&)>& object_of);

// The variants that some target's portfolio uses; a target whose portfolio is empty keeps its best.
std::set<std::string> VariantsInForce(const BundleModel& model);

// Cases of the task's own sets for a target, timed ones first.
absl::StatusOr<std::vector<BoundCase>> OwnCases(const Task& task, const std::string& target);

// What the cases that the variant is meant for span, one entry a selector, in their order. The
// variant's provenance must name the target. Errors: those of binding the task's cases.
absl::StatusOr<std::vector<Envelope>> EnvelopesOf(const ProvenVariant& variant);

// What a case's build is chosen by.
BuildSelector SelectorOf(const Task& task, const BoundCase& bound_case);

}  // namespace fettle
