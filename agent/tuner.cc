// SPDX-License-Identifier: Apache-2.0
#include "agent/tuner.h"

#include <cmath>
#include <set>
#include <unordered_set>

#include "agent/search.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

constexpr std::string_view kPrefix = "tuner/";

// What constraints see besides the tunables: the target, and a case's dims and element sizes.
ExprScope CaseScope(const Target& target, const BoundCase* bound_case) {
  ExprScope scope;
  for (const auto& [name, value] : TargetVariables(target)) scope.Set("target." + name, value);
  if (bound_case == nullptr) return scope;
  for (const BoundDim& dim : bound_case->dims) {
    if (dim.is_list) {
      scope.Set(dim.name, dim.values);
    } else {
      scope.Set(dim.name, dim.values.front());
    }
  }
  for (const auto& [name, dtype] : bound_case->types) {
    scope.Set(fmt::format("sizeof({})", name), SizeOf(dtype));
  }
  return scope;
}

// Holds where all expressions are nonzero in every scope (or in any one of them). A combination
// that one cannot be evaluated for (a division by zero, say) does not hold.
SpaceConstraint MakeConstraint(const std::vector<Expr>& expressions,
                               const std::vector<Tunable>& tunables, std::vector<ExprScope> scopes,
                               bool every_scope) {
  std::set<std::string> used;
  for (const Expr& expression : expressions) used.merge(expression.Names());
  SpaceConstraint constraint;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < tunables.size(); ++i) {
    if (!used.contains(tunables[i].name)) continue;
    constraint.tunables.push_back(i);
    names.push_back(tunables[i].name);
  }
  const bool depends_on_case = std::any_of(used.begin(), used.end(), [&](const std::string& name) {
    return !name.starts_with("target.") &&
           std::find(names.begin(), names.end(), name) == names.end();
  });
  if (!depends_on_case) scopes.resize(1);
  constraint.holds = [=](std::span<const std::int64_t> values) -> absl::StatusOr<bool> {
    std::size_t holding = 0;
    for (ExprScope scope : scopes) {
      for (std::size_t i = 0; i < names.size(); ++i) scope.Set(names[i], values[i]);
      holding += std::all_of(expressions.begin(), expressions.end(),
                             [&](const Expr& expression) {
                               const absl::StatusOr<std::int64_t> value =
                                   expression.Evaluate(scope);
                               return value.ok() && *value != 0;
                             })
                     ? 1
                     : 0;
    }
    return every_scope ? holding == scopes.size() : holding > 0;
  };
  return constraint;
}

absl::StatusOr<TunableSpace> MakeSpace(const Task& task, const KernelSpec& kernel,
                                       const Target& target, bool all_cases) {
  std::vector<Tunable> tunables = kernel.tunables;
  for (Tunable& tunable : tunables) std::sort(tunable.values.begin(), tunable.values.end());
  FETTLE_ASSIGN_OR_RETURN(const std::vector<BoundCase> cases,
                          task.BindCases(CaseSet::kTimed, /*seed=*/1, target));
  std::vector<ExprScope> scopes;
  for (const BoundCase& one : cases) scopes.push_back(CaseScope(target, &one));
  if (scopes.empty()) scopes.push_back(CaseScope(target, nullptr));
  std::vector<SpaceConstraint> constraints;
  if (!all_cases) {
    constraints.push_back(
        MakeConstraint(kernel.constraints, tunables, scopes, /*every_scope=*/false));
  }
  for (const Expr& expression : kernel.constraints) {
    if (!all_cases) break;
    constraints.push_back(MakeConstraint({expression}, tunables, scopes, /*every_scope=*/true));
  }
  return TunableSpace::Create(std::move(tunables), std::move(constraints));
}

class Tuner final : public Proposer {
 public:
  Tuner(const Task& task, KernelSpec kernel, const Target& target, TunableSpace space,
        TunerOptions options)
      : task_digest_(task.digest()),
        kernel_(std::move(kernel)),
        parent_(std::move(options.parent)),
        target_(target.name),
        budget_(static_cast<std::uint64_t>(options.budget)),
        space_(std::move(space)),
        search_(space_, options.seed, options.budget) {}

  std::string_view name() const override { return "tuner"; }

  absl::StatusOr<std::vector<Proposal>> Propose(int max, std::stop_token stop) override {
    std::vector<Proposal> proposals;
    while (static_cast<int>(proposals.size()) < max && !exhausted()) {
      if (stop.stop_requested()) return absl::CancelledError("proposing tunable values");
      const std::optional<Search::Suggestion> next = NextPoint();
      if (!next.has_value()) {
        spent_ = true;
        break;
      }
      techniques_[next->point] = next->technique;
      Proposal proposal;
      proposal.kernel = kernel_;
      proposal.parent = parent_;
      proposal.values = space_.Values(next->point);
      proposal.kernel.values = proposal.values;
      proposal.rationale = Rationale(*next);
      proposal.technique = std::string(kPrefix) + next->technique;
      proposals.push_back(std::move(proposal));
    }
    return proposals;
  }

  void Observe(const Outcome& outcome) override {
    const std::optional<PointCode> point = space_.Code(outcome.values);
    if (!point.has_value() || observed_.contains(*point)) return;
    // Another proposer's kernel may have the same tunables; only the baseline's is ours.
    KernelSpec kernel = kernel_;
    kernel.values = outcome.values;
    if (outcome.candidate_digest !=
        CandidateDigest(task_digest_, target_, kernel, outcome.values)) {
      return;
    }
    observed_.insert(*point);
    Evaluation evaluation;
    evaluation.point = *point;
    evaluation.technique = Technique(outcome, *point);
    const Verdict verdict = outcome.verdict.verdict;
    if (outcome.ratio.has_value() && *outcome.ratio > 0 &&
        (verdict == Verdict::kWin || verdict == Verdict::kNoWin ||
         verdict == Verdict::kAmbiguous)) {
      evaluation.cost = -std::log(*outcome.ratio);
    }
    search_.Observe(std::move(evaluation));
  }

  bool exhausted() const override {
    const std::uint64_t taken = search_.history().taken();
    return spent_ || taken >= budget_ || (space_.enumerated() && taken >= *space_.size());
  }

 private:
  std::optional<Search::Suggestion> NextPoint() {
    const std::optional<PointCode> declared = space_.Code(kernel_.values);
    if (declared.has_value() && space_.IsValid(*declared) &&
        !search_.history().IsTaken(*declared)) {
      search_.Take(*declared);
      return Search::Suggestion{*declared, "declared"};
    }
    return search_.Next();
  }

  std::string Technique(const Outcome& outcome, PointCode point) const {
    if (outcome.technique.starts_with(kPrefix)) return outcome.technique.substr(kPrefix.size());
    const auto found = techniques_.find(point);
    return found == techniques_.end() ? "" : found->second;
  }

  // "BLOCK=512 VEC=4 (genetic): differs from the best so far, 1.21x, in BLOCK (256)".
  std::string Rationale(const Search::Suggestion& suggestion) const {
    std::string text;
    for (std::size_t i = 0; i < space_.dimensions(); ++i) {
      text += fmt::format("{}{}={}", i == 0 ? "" : " ", space_.tunables()[i].name,
                          space_.Value(suggestion.point, i));
    }
    text += fmt::format(" ({})", suggestion.technique);
    const SearchHistory& history = search_.history();
    if (!history.best().has_value()) return text;
    const Evaluation& best = history.evaluations()[*history.best()];
    std::string changes;
    for (std::size_t i = 0; i < space_.dimensions(); ++i) {
      if (space_.Index(best.point, i) == space_.Index(suggestion.point, i)) continue;
      changes += fmt::format("{}{} ({})", changes.empty() ? "" : ", ", space_.tunables()[i].name,
                             space_.Value(best.point, i));
    }
    return text + fmt::format(": differs from the best so far, {:.3f}x, in {}",
                              std::exp(-*best.cost), changes);
  }

  const std::string task_digest_;
  const KernelSpec kernel_;
  const std::string parent_;
  std::string target_;
  std::uint64_t budget_;
  TunableSpace space_;
  Search search_;
  bool spent_ = false;
  std::unordered_map<PointCode, std::string> techniques_;
  std::unordered_set<PointCode> observed_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Proposer>> MakeTuner(const Task& task, const Target& target,
                                                    TunerOptions options) {
  return MakeKernelTuner(task, task.baseline(), target, std::move(options));
}

absl::StatusOr<std::unique_ptr<Proposer>> MakeKernelTuner(const Task& task, KernelSpec kernel,
                                                          const Target& target,
                                                          TunerOptions options) {
  if (options.budget <= 0) {
    return absl::InvalidArgumentError(
        fmt::format("make the tuner: a budget of {} candidates; give at least 1", options.budget));
  }
  absl::StatusOr<TunableSpace> space = MakeSpace(task, kernel, target, /*all_cases=*/true);
  if (absl::IsInvalidArgument(space.status())) {
    space = MakeSpace(task, kernel, target, /*all_cases=*/false);
  }
  if (!space.ok()) {
    return absl::Status(space.status().code(),
                        fmt::format("make the tuner for task {} on {}: {}", task.name(),
                                    target.name, std::string(space.status().message())));
  }
  return std::make_unique<Tuner>(task, std::move(kernel), target, *std::move(space),
                                 std::move(options));
}

}  // namespace fettle
