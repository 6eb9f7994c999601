// SPDX-License-Identifier: Apache-2.0
#pragma once

// A task as parsed from its folder (DESIGN.md 6, FORMAT.md). Immutable once parsed.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/bound.h"
#include "core/expr.h"
#include "core/target.h"

namespace fettle {

// Files of a task folder by path relative to it ("task.yaml", "kernel.cu"). Reading a folder into
// this is core-external I/O (cli/task_folder.h); the wire carries exactly this.
using TaskFiles = std::map<std::string, std::string>;

// A mistake in a task file.
struct TaskProblem {
  std::string file;
  int line = 0, column = 0;  // From 1; 0 where no place can be named.
  std::string field;         // "args.x.shape", ...
  std::string message;       // What is wrong and what to write instead.
};
std::string FormatProblems(const std::vector<TaskProblem>& problems);  // file:line:col: message

struct Tunable {
  std::string name;
  std::vector<std::int64_t> values;  // In the task's order, distinct.
};
using TunableValues = std::map<std::string, std::int64_t>;

// A kernel as a baseline, a proposal or a rival carries it.
struct KernelSpec {
  std::string source_name;  // "kernel.cu"; diagnostics use it.
  std::string source;
  std::vector<std::pair<std::string, std::string>> headers;  // Further files: name, text.
  Dialect dialect = Dialect::kCuda;
  int lanes = 32;  // 32, 64, or 0 for any.
  std::vector<Tunable> tunables;
  TunableValues values;  // One per tunable.
  std::vector<Expr> constraints;
  std::vector<Expr> guards;  // `requires`, over dims.
  nlohmann::json launches;   // Canonical JSON of `launches`; parsed form below.
  nlohmann::json workspace;  // Canonical JSON of `workspace`.
};

// Parsed declaration of dims, args, cases and so on; defined in task_model.h for those who need it.
struct TaskModel;

class Task {
 public:
  // Parses and checks `files["task.yaml"]` and what it names. On failure fills `problems` (never
  // empty then) and returns kInvalidArgument with the first one.
  static absl::StatusOr<std::shared_ptr<const Task>> Parse(TaskFiles files,
                                                           std::vector<TaskProblem>* problems);
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task();

  const std::string& name() const;
  const std::string& summary() const;
  const std::string& license() const;
  const std::string& digest() const;  // DESIGN.md 2, lower-case hex.
  const TaskFiles& files() const;
  const KernelSpec& baseline() const;
  const TaskModel& model() const;
  // Source and function of the reference and of a custom checker (empty where there is none).
  // Kinds: "cxx" (host C++), "npy" (stored outputs: `files` has one pattern per output argument, in
  // the signature's order; StoredOutputPath makes it a path).
  struct ReferenceSpec {
    std::string kind, source, function;
    std::vector<std::string> files;
  };
  const ReferenceSpec& reference() const;
  struct CheckerSpec {
    std::string source, function;
    std::vector<std::string> outputs;
  };
  const std::vector<CheckerSpec>& checkers() const;
  int held_out_count() const;

  // Cases of a set, bound. Entry i of the result is "timed/i" etc. Data-dependent dims are drawn
  // with `seed`. kInvalidArgument where `valid` does not hold.
  absl::StatusOr<std::vector<BoundCase>> BindCases(CaseSet set, std::uint64_t seed) const;
  // The same, without the cases that are declared `for` another kind of target; the others keep
  // their labels.
  absl::StatusOr<std::vector<BoundCase>> BindCases(CaseSet set, std::uint64_t seed,
                                                   const Target& target) const;
  // Draws `held_out_count()` new cases from `seed`, after up to three on the domain's edges, each
  // of at most `memory_cap` bytes; and up to six with a large value of one dim, each dtype in turn.
  // `too_large`, unless empty, says what a case has too much of, or nothing. `near_declared`: also
  // tries declared cases with other dtypes and dims, for who accepts few values. kInvalidArgument
  // names the condition that failed most.
  using TooLarge = std::function<std::string(const BoundCase&)>;
  absl::StatusOr<std::vector<BoundCase>> DrawHeldOut(std::uint64_t seed, std::int64_t memory_cap,
                                                     const TooLarge& too_large = {},
                                                     bool near_declared = false) const;

  // The plan of `kernel` for one case. kInvalidArgument: an expression fails, an argument does not
  // exist, more than 256 launches, limits of the target exceeded (message says which).
  absl::StatusOr<BoundPlan> BindPlan(const KernelSpec& kernel, const TunableValues& values,
                                     const BoundCase& bound_case, const Target& target) const;
  // Whether `requires` holds for the case.
  absl::StatusOr<bool> Supports(const KernelSpec& kernel, const BoundCase& bound_case) const;
  // Whether all constraints hold for these values (dims-free constraints, or with `bound_case`).
  absl::StatusOr<bool> Admits(const KernelSpec& kernel, const TunableValues& values,
                              const Target& target, const BoundCase* bound_case) const;

  // What must be compiled for the case: macro definitions (tunables, `specialize` dims, each as
  // NAME=value) and name expressions, spelled for `dialect`. Cases with equal inputs share a build.
  struct BuildInputs {
    std::vector<std::pair<std::string, std::string>> macros;
    std::vector<std::string> entries;
    std::string key;  // Equal exactly when the two lists are.
  };
  absl::StatusOr<BuildInputs> BuildInputsFor(const KernelSpec& kernel, const TunableValues& values,
                                             const BoundCase& bound_case,
                                             const Target& target) const;

  // Sets the work of a bound case once the number of distinct values of its index arguments is
  // known
  // (`unique(arg)` in `work`; until then it counts as at most one, which keeps the bound a lower
  // one).
  absl::Status RefineWork(const std::map<std::string, std::int64_t>& unique,
                          BoundCase& bound_case) const;

  // Checks a proposal block {source..., tunables, values, constraints, workspace, launches,
  // requires} (JSON form of the task's baseline block plus "source" text) against this task.
  absl::StatusOr<KernelSpec> ParseKernelSpec(const nlohmann::json& block,
                                             std::vector<TaskProblem>* problems) const;

 private:
  struct Impl;  // task_impl.h
  explicit Task(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The block that ParseKernelSpec reads, with every field written out.
nlohmann::json ToJson(const KernelSpec& kernel);
// Reads what ToJson wrote, strictly, without checking it against a task. kInvalidArgument.
absl::StatusOr<KernelSpec> KernelSpecFromJson(const nlohmann::json& json);

// The file of a stored output (ReferenceSpec::files) for one case: "{case}" becomes the label with
// '/' as '_' ("timed_0"), "{member}" the member of a `pointers` output.
std::string StoredOutputPath(std::string_view pattern, std::string_view case_label,
                             std::int64_t member);

// Candidate digest (DESIGN.md 2): task, target, source, plan, workspace, values, options.
std::string CandidateDigest(std::string_view task_digest, std::string_view target,
                            const KernelSpec& kernel, const TunableValues& values);

// Number of points of the tunable space before constraints; saturates at int64 max.
std::int64_t SpaceSize(const std::vector<Tunable>& tunables);

}  // namespace fettle
