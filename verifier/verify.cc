// SPDX-License-Identifier: Apache-2.0
#include "verifier/verify.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/json_reader.h"
#include "core/status_macros.h"
#include "device/tensor_layout.h"
#include "verifier/failure_class.h"
#include "verifier/input_choice.h"
#include "verifier/poison.h"
#include "verifier/random.h"

namespace fettle {
namespace {

using nlohmann::json;

// Names inputs among those of one task: the seed is secret and a job's own.
std::string SpecKey(const BoundCase& bound_case, const InputSpec& spec) {
  return fmt::format("{} {} {:x} {} {} {}", bound_case.label, bound_case.Describe(), spec.seed,
                     static_cast<int>(spec.set), spec.flip_tensor, spec.flip_element);
}

// The first output that failed: which element, what was expected there and what it was.
json MismatchOf(const Judgement& judgement) {
  for (const Comparison& one : judgement.outputs) {
    if (one.passed) continue;
    const OutputErrors& errors = one.errors;
    return {{"output", errors.output},
            {"index", errors.first_index},
            {"expected", JsonNumber(errors.expected)},
            {"actual", JsonNumber(errors.actual)},
            {"mismatches", errors.mismatches},
            {"compared", errors.compared},
            {"worst_over_tolerance", JsonNumber(errors.worst)}};
  }
  return json::object();
}

// Whether a result is beyond what f32 holds, in which kernels add up what is not f64: on the way
// there the order of a sum decides between infinity and NaN.
bool SumsOverflow(const BoundCase& bound_case, const Judgement& baseline) {
  return std::any_of(
      baseline.outputs.begin(), baseline.outputs.end(), [&](const Comparison& output) {
        const auto tensor =
            std::find_if(bound_case.tensors.begin(), bound_case.tensors.end(),
                         [&](const BoundTensor& one) { return one.name == output.errors.output; });
        return output.max_reference > MaxFinite(DType::kF32) &&
               (tensor == bound_case.tensors.end() || tensor->dtype != DType::kF64);
      });
}

bool PermitsMisalignment(const BoundCase& bound_case) {
  return std::any_of(
      bound_case.tensors.begin(), bound_case.tensors.end(),
      [](const BoundTensor& tensor) { return tensor.align_bytes > 0 && tensor.align_bytes < 256; });
}

}  // namespace

RunRequest Verifier::Request(const CaseUnderTest& one, const InputSpec& spec) const {
  RunRequest request;
  request.bound_case = one.bound_case;
  request.kernel = one.kernel;
  request.input_seed = spec.seed;
  request.inputs = spec.set;
  request.flip_tensor = spec.flip_tensor;
  request.flip_element = spec.flip_element;
  request.output_poison = kPoisonA;
  request.workspace_poison = kPoisonA;
  request.launch_limit = options_.launch_limit;
  request.want_outputs = !leaves_outputs();
  for (const auto& file : FillFiles(one.bound_case, options_.files)) request.files.insert(file);
  return request;
}

bool Verifier::IsLarge(const BoundCase& bound_case) const {
  return ElementsOf(bound_case) > options_.large_elements;
}

Verifier::Outcome Verifier::Run(const RunRequest& request, RunObservation* observation) {
  if (options_.stop.stop_requested()) return absl::CancelledError("verification was stopped");
  absl::StatusOr<RunObservation> result = session_.RunCase(request);
  if (!result.ok()) {
    const std::string message(result.status().message());
    switch (result.status().code()) {
      case absl::StatusCode::kInvalidArgument:
        return Failure{Verdict::kLaunchError, "launch_refused", message};
      case absl::StatusCode::kAborted:
        return Failure{Verdict::kCrashed,
                       request.placement == Placement::kPageEnd ? "page_end_fault" : "crashed",
                       message};
      case absl::StatusCode::kDeadlineExceeded:
        return Failure{Verdict::kTimeout, "launch_deadline", message};
      default:
        if (!absl::IsResourceExhausted(result.status())) return result.status();
        return absl::ResourceExhaustedError(fmt::format("case {}: {}; make the case smaller",
                                                        request.bound_case.set == CaseSet::kHeldOut
                                                            ? "held out"
                                                            : request.bound_case.Describe(),
                                                        message));
    }
  }
  *observation = *std::move(result);
  if (observation->guard_violation) {
    return Failure{Verdict::kIncorrect, "guard_overwritten",
                   "memory outside the buffers was written: " + *observation->guard_violation};
  }
  if (observation->modified_input) {
    return Failure{
        Verdict::kIncorrect, "input_modified",
        fmt::format("the kernel changed {}, which it may only read", *observation->modified_input)};
  }
  if (observation->padding_violation) {
    return Failure{Verdict::kIncorrect, "padding_written", *observation->padding_violation};
  }
  return std::optional<Failure>();
}

absl::StatusOr<Judgement> Verifier::JudgeLeft(const BoundCase& bound_case, const InputSpec& spec,
                                              CompareMode mode,
                                              const std::vector<std::string>& digests) {
  const std::string key = fmt::format("{}|{}|{}", SpecKey(bound_case, spec), static_cast<int>(mode),
                                      fmt::join(digests, ","));
  if (options_.judged != nullptr) {
    const auto known = options_.judged->Find(key);
    if (known && *known) return **known;
  }
  FETTLE_ASSIGN_OR_RETURN(const auto rows, judge_.Rows(bound_case, spec));
  FETTLE_ASSIGN_OR_RETURN(const auto outputs, session_.FetchOutputs(rows));
  FETTLE_ASSIGN_OR_RETURN(Judgement judgement, judge_.Judge(bound_case, spec, outputs, mode));
  if (options_.judged != nullptr) options_.judged->Put(key, judgement);
  return judgement;
}

Verifier::Outcome Verifier::RunAndJudge(const RunRequest& request, CompareMode mode,
                                        RunObservation* observation, Judgement* judgement) {
  FETTLE_ASSIGN_OR_RETURN(std::optional<Failure> failure, Run(request, observation));
  if (failure) return failure;
  // Equal to what was judged before.
  if (!request.known_digests.empty() && observation->output_digests == request.known_digests) {
    judgement->passed = true;
    return std::optional<Failure>();
  }
  const InputSpec spec{request.input_seed, request.inputs, request.flip_tensor,
                       request.flip_element};
  if (request.want_outputs) {
    FETTLE_ASSIGN_OR_RETURN(*judgement,
                            judge_.Judge(request.bound_case, spec, observation->outputs, mode));
  } else {
    FETTLE_ASSIGN_OR_RETURN(*judgement,
                            JudgeLeft(request.bound_case, spec, mode, observation->output_digests));
  }
  if (judgement->passed) return std::optional<Failure>();
  return Failure{Verdict::kIncorrect, judgement->reason_code, judgement->message,
                 MismatchOf(*judgement)};
}

absl::StatusOr<std::optional<Judgement>> Verifier::Baseline(const CaseUnderTest& one,
                                                            const InputSpec& spec) {
  if (!one.baseline) return std::optional<Judgement>();
  const std::string key =
      options_.judged == nullptr || one.baseline_digest.empty() || !leaves_outputs()
          ? std::string()
          : fmt::format("baseline {} {}", one.baseline_digest, SpecKey(one.bound_case, spec));
  if (!key.empty()) {
    if (const auto known = options_.judged->Find(key)) return *known;
  }
  CaseUnderTest trusted = one;
  trusted.kernel = *one.baseline;
  RunRequest request = Request(trusted, spec);
  RunObservation observation;
  Judgement judgement;
  FETTLE_ASSIGN_OR_RETURN(
      const std::optional<Failure> failure,
      RunAndJudge(
          request,
          spec.set == InputSet::kExactIntegers ? CompareMode::kExact : CompareMode::kTolerance,
          &observation, &judgement));
  if (!failure) {
    if (!key.empty()) options_.judged->Put(key, judgement);
    return judgement;
  }
  if (failure->verdict != Verdict::kIncorrect) {
    return absl::FailedPreconditionError(
        fmt::format("the baseline itself failed on {} inputs ({}): {}",
                    std::string(InputSetName(spec.set)), failure->reason_code, failure->message));
  }
  if (!key.empty()) options_.judged->Put(key, std::nullopt);
  return std::optional<Judgement>();
}

// Both patterns, five launches in all, in the same memory.
Verifier::Outcome Verifier::RunOverPoisons(const CaseUnderTest& one, const InputSpec& spec,
                                           bool want_outputs, RunObservation* a,
                                           RunObservation* b) {
  RunRequest request = Request(one, spec);
  request.want_outputs = want_outputs;
  request.repeats = IsLarge(one.bound_case) ? 2 : 3;
  FETTLE_ASSIGN_OR_RETURN(std::optional<Failure> failure, Run(request, a));
  if (failure) return failure;
  request.reuse_buffers = true;
  request.repeats = IsLarge(one.bound_case) ? 1 : 2;
  request.output_poison = kPoisonB;
  request.workspace_poison = kPoisonB;
  request.known_digests = a->output_digests;
  return Run(request, b);
}

Verifier::Outcome Verifier::TwoPoisons(const CaseUnderTest& one, const InputSpec& spec,
                                       CaseReport* report, Pass* pass) {
  const bool deterministic = one.bound_case.deterministic;
  RunObservation a, b;
  const auto same = [&a, &b] {
    return a.repeats_equal && b.repeats_equal && a.output_digests == b.output_digests;
  };
  FETTLE_ASSIGN_OR_RETURN(std::optional<Failure> failure,
                          RunOverPoisons(one, spec, !leaves_outputs(), &a, &b));
  if (failure) return failure;
  const bool left = leaves_outputs() && same();
  if (leaves_outputs() && !left) {  // The bytes tell what differs.
    FETTLE_ASSIGN_OR_RETURN(failure, RunOverPoisons(one, spec, /*want_outputs=*/true, &a, &b));
    if (failure) return failure;
  }
  report->checks.insert(report->checks.end(), {"guards", "inputs", "poison"});
  // Equal bytes over two patterns hold neither.
  if (const auto survived = FindSurvivingPoison(one.bound_case, a.outputs, b.outputs)) {
    return Failure{Verdict::kIncorrect, "poison_survived", *survived};
  }
  Judgement judgement;
  if (left) {
    FETTLE_ASSIGN_OR_RETURN(
        judgement, JudgeLeft(one.bound_case, spec, CompareMode::kTolerance, a.output_digests));
  } else {
    FETTLE_ASSIGN_OR_RETURN(judgement, judge_.Judge(one.bound_case, spec, a.outputs));
  }
  for (const Comparison& comparison : judgement.outputs)
    report->outputs.push_back(comparison.errors);
  report->checks.emplace_back("bound");
  if (!judgement.passed) {
    return Failure{Verdict::kIncorrect, judgement.reason_code, judgement.message,
                   MismatchOf(judgement)};
  }
  if (deterministic && !same()) {
    return Failure{Verdict::kIncorrect, "nondeterministic",
                   a.output_digests == b.output_digests
                       ? "identical launches gave different bytes"
                       : "the result depends on what outputs or workspace held before"};
  }
  if (!deterministic) {
    std::vector<std::vector<std::vector<std::uint8_t>>> others = std::move(a.other_outputs);
    if (!b.outputs.empty()) others.push_back(b.outputs);
    for (auto& more : b.other_outputs) others.push_back(std::move(more));
    for (const auto& other : others) {
      FETTLE_ASSIGN_OR_RETURN(const std::int64_t over,
                              judge_.Spread(one.bound_case, spec, a.outputs, other));
      if (over > 0) {
        return Failure{Verdict::kIncorrect, "spread",
                       fmt::format("{} elements differ between launches by more than half of their "
                                   "tolerance",
                                   over)};
      }
    }
  }
  report->checks.emplace_back(deterministic ? "repeats" : "spread");
  pass->spec = spec;
  pass->digests = a.output_digests;
  return Budget(one, spec, judgement, report);
}

Verifier::Outcome Verifier::Budget(const CaseUnderTest& one, const InputSpec& spec,
                                   const Judgement& candidate, CaseReport* report) {
  FETTLE_ASSIGN_OR_RETURN(const std::optional<Judgement> baseline, Baseline(one, spec));
  if (!baseline) return std::optional<Failure>();
  report->checks.emplace_back("error_budget");
  const std::vector<std::int64_t> outputs = OutputTensors(one.bound_case);
  for (std::size_t i = 0; i < candidate.outputs.size() && i < baseline->outputs.size(); ++i) {
    const Comparison& theirs = baseline->outputs[i];
    const Comparison& ours = candidate.outputs[i];
    const auto tensor = std::find_if(outputs.begin(), outputs.end(), [&](std::int64_t index) {
      return one.bound_case.tensors[static_cast<std::size_t>(index)].name == ours.errors.output;
    });
    if (tensor == outputs.end()) continue;  // A checker over several outputs.
    const auto over = OverBudget(one.bound_case.tensors[static_cast<std::size_t>(*tensor)], ours,
                                 {theirs.errors.rms, theirs.max_error});
    if (over) return Failure{Verdict::kIncorrect, "error_budget", *over};
  }
  return std::optional<Failure>();
}

// New data at the same addresses.
Verifier::Outcome Verifier::InPlace(const CaseUnderTest& one, const InputSpec& spec,
                                    CaseReport* report) {
  const std::vector<InputSpec> changes =
      ChangesInPlace(one.bound_case, spec, IsLarge(one.bound_case));
  for (const InputSpec& changed : changes) {
    FETTLE_ASSIGN_OR_RETURN(std::optional<Failure> failure, ChangeInPlace(one, changed));
    if (failure) return failure;
  }
  if (!changes.empty()) report->checks.emplace_back("in_place_change");
  return std::optional<Failure>();
}

Verifier::Outcome Verifier::ChangeInPlace(const CaseUnderTest& one, const InputSpec& changed) {
  RunRequest request = Request(one, changed);
  request.reuse_buffers = true;
  RunObservation observation;
  Judgement judgement;
  FETTLE_ASSIGN_OR_RETURN(std::optional<Failure> failure,
                          RunAndJudge(request, CompareMode::kTolerance, &observation, &judgement));
  if (failure && failure->verdict == Verdict::kIncorrect && !judgement.outputs.empty()) {
    failure->reason_code = "stale_result";
    failure->message = "after a change of the inputs in place: " + failure->message;
  }
  return failure;
}

Verifier::Outcome Verifier::Placements(const CaseUnderTest& one, const InputSpec& spec,
                                       const std::vector<std::string>& known, CaseReport* report) {
  std::vector<Placement> placements = {Placement::kPageEnd, Placement::kScattered};
  if (PermitsMisalignment(one.bound_case)) placements.push_back(Placement::kMisaligned);
  bool scattered = false;
  for (const Placement placement : placements) {
    if (placement == Placement::kScattered && scattered) continue;
    RunRequest request = Request(one, spec);
    request.placement = placement;
    request.known_digests = known;
    RunObservation observation;
    Judgement judgement;
    FETTLE_ASSIGN_OR_RETURN(
        std::optional<Failure> failure,
        RunAndJudge(request, CompareMode::kTolerance, &observation, &judgement));
    const std::string name = placement == Placement::kMisaligned ? "misaligned"
                             : observation.at_page_end           ? "page_end"
                                                                 : "other_addresses";
    scattered = scattered || !observation.at_page_end;
    if (failure) {
      failure->message += fmt::format(" (buffers placed {})", name);
      return failure;
    }
    report->checks.push_back(name);
  }
  return std::optional<Failure>();
}

// The sets take turns over the cases that are large enough to tell; NaN and infinities, where they
// may be given, are tried on every one of those.
Verifier::Outcome Verifier::InputSets(const CaseUnderTest& one, std::size_t index,
                                      CaseReport* report) {
  if (!one.baseline) return std::optional<Failure>();
  for (const InputSet set : SetsOfLarge(one.bound_case, options_, index)) {
    FETTLE_RETURN_IF_ERROR(RunInputSet(one, index, set, report).status());
    if (set_failure_) return std::exchange(set_failure_, std::nullopt);
  }
  if (!TakesSets(one.bound_case, options_)) return std::optional<Failure>();
  int ran = 0;
  std::vector<InputSet> taken;
  std::size_t turn = next_set_;
  for (std::size_t i = 0; i < kSetTurns.size() && ran < options_.input_sets_per_case; ++i) {
    const InputSet set = kSetTurns[turn++ % kSetTurns.size()];
    if (!Changes(set, one.bound_case)) continue;
    taken.push_back(set);
    FETTLE_ASSIGN_OR_RETURN(const bool possible, RunInputSet(one, index, set, report));
    if (set_failure_) return std::exchange(set_failure_, std::nullopt);
    ran += possible;
  }
  if (!Tells(one.bound_case)) return std::optional<Failure>();
  next_set_ = turn;
  for (const InputSet set : SetsOfDtypes(one.bound_case, options_, taken)) {
    FETTLE_RETURN_IF_ERROR(RunInputSet(one, index, set, report).status());
    if (set_failure_) return std::exchange(set_failure_, std::nullopt);
  }
  if (!AnyNonFinite(one.bound_case)) return std::optional<Failure>();
  FETTLE_RETURN_IF_ERROR(RunInputSet(one, index, InputSet::kNonFinite, report).status());
  return std::exchange(set_failure_, std::nullopt);
}

// Sets whose turn never came, on the largest of the cases that can tell: otherwise a task of few
// cases would never be tried on some of them.
Verifier::Outcome Verifier::RemainingSets(const std::vector<CaseUnderTest>& cases,
                                          std::vector<CaseReport>* reports,
                                          std::size_t* failed_case) {
  std::size_t last = cases.size();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const CaseUnderTest& one = cases[i];
    if (!one.supported || !one.baseline) continue;
    const BoundCase* const before = last < cases.size() ? &cases[last].bound_case : nullptr;
    if (TakesRemainingSets(one.bound_case, before, options_)) last = i;
  }
  if (last == cases.size()) return std::optional<Failure>();
  *failed_case = last;
  for (; next_set_ < kSetTurns.size(); ++next_set_) {
    if (!Changes(kSetTurns[next_set_], cases[last].bound_case)) continue;
    FETTLE_RETURN_IF_ERROR(
        RunInputSet(cases[last], last, kSetTurns[next_set_], &(*reports)[last]).status());
    if (set_failure_) break;
  }
  return std::exchange(set_failure_, std::nullopt);
}

// Whether the baseline can meet the set; the candidate's failure is in set_failure_.
absl::StatusOr<bool> Verifier::RunInputSet(const CaseUnderTest& one, std::size_t index,
                                           InputSet set, CaseReport* report) {
  const InputSpec spec = SetSpec(options_, index, set);
  FETTLE_ASSIGN_OR_RETURN(const std::optional<Judgement> baseline, Baseline(one, spec));
  // No honest kernel of this kind meets it: the task's domain ends before.
  if (!baseline || SumsOverflow(one.bound_case, *baseline)) {
    warnings_.push_back(fmt::format("input set {} is beyond the baseline and was left out",
                                    std::string(InputSetName(set))));
    return false;
  }
  RunObservation observation;
  Judgement judgement;
  FETTLE_ASSIGN_OR_RETURN(set_failure_, RunAndJudge(Request(one, spec), CompareMode::kTolerance,
                                                    &observation, &judgement));
  if (set_failure_) {
    set_failure_->message += fmt::format(" (inputs: {})", std::string(InputSetName(set)));
    set_failure_->evidence["input_set"] = std::string(InputSetName(set));
    return true;
  }
  report->checks.push_back("inputs:" + std::string(InputSetName(set)));
  return true;
}

Verifier::Outcome Verifier::ExactIntegers(const CaseUnderTest& one, std::size_t index,
                                          CaseReport* report) {
  if (!one.bound_case.linear || !AnyDrawnFloat(one.bound_case)) return std::optional<Failure>();
  const InputSpec spec = ExactSpec(options_, index);
  if (one.baseline) {
    FETTLE_ASSIGN_OR_RETURN(const std::optional<Judgement> baseline, Baseline(one, spec));
    if (!baseline) {
      warnings_.push_back(
          "the baseline is not exact on small integers, so that probe was left out");
      return std::optional<Failure>();
    }
  }
  RunObservation observation;
  Judgement judgement;
  FETTLE_ASSIGN_OR_RETURN(
      std::optional<Failure> failure,
      RunAndJudge(Request(one, spec), CompareMode::kExact, &observation, &judgement));
  if (failure) failure->message += " (inputs: small integers, where every sum is exact)";
  if (!failure) report->checks.emplace_back("exact_integers");
  return failure;
}

Verifier::Outcome Verifier::CheckCase(const CaseUnderTest& one, std::size_t index,
                                      CaseReport* report, Pass* pass) {
  const InputSpec spec = DeclaredSpec(options_, index);
  FETTLE_ASSIGN_OR_RETURN(std::optional<Failure> failure, TwoPoisons(one, spec, report, pass));
  if (failure || options_.first_look) return failure;
  // The baseline may have run in between, in memory of its own.
  RunObservation again;
  RunRequest elsewhere = Request(one, spec);
  elsewhere.want_outputs = false;
  FETTLE_ASSIGN_OR_RETURN(failure, Run(elsewhere, &again));
  if (failure) return failure;
  if (one.bound_case.deterministic && again.output_digests != pass->digests) {
    return Failure{Verdict::kIncorrect, "address_dependent",
                   "the same inputs at other addresses gave different bytes"};
  }
  FETTLE_ASSIGN_OR_RETURN(failure, InPlace(one, spec, report));
  if (failure) return failure;
  FETTLE_ASSIGN_OR_RETURN(failure, Placements(one, spec, pass->digests, report));
  if (failure) return failure;
  FETTLE_ASSIGN_OR_RETURN(failure, ExactIntegers(one, index, report));
  if (failure) return failure;
  return InputSets(one, index, report);
}

// Every case once more, in another order and with other cases' leftovers around it.
Verifier::Outcome Verifier::RotatedOrder(const std::vector<CaseUnderTest>& cases,
                                         const std::vector<Pass>& passes,
                                         std::vector<CaseReport>* reports,
                                         std::size_t* failed_case) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].supported) order.push_back(i);
  }
  // Large before small: what a large case leaves behind shows in the next small one.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return ElementsOf(cases[a].bound_case) > ElementsOf(cases[b].bound_case);
  });
  for (const std::size_t i : order) {
    *failed_case = i;
    RunObservation observation;
    RunRequest request = Request(cases[i], passes[i].spec);
    request.known_digests = passes[i].digests;
    FETTLE_ASSIGN_OR_RETURN(std::optional<Failure> failure, Run(request, &observation));
    if (failure) return failure;
    if (observation.output_digests != passes[i].digests) {
      Judgement judgement;
      if (request.want_outputs) {
        FETTLE_ASSIGN_OR_RETURN(
            judgement, judge_.Judge(cases[i].bound_case, passes[i].spec, observation.outputs));
      } else {
        FETTLE_ASSIGN_OR_RETURN(
            judgement, JudgeLeft(cases[i].bound_case, passes[i].spec, CompareMode::kTolerance,
                                 observation.output_digests));
      }
      if (cases[i].bound_case.deterministic || !judgement.passed) {
        return Failure{Verdict::kIncorrect, "order_dependent",
                       "the case gave another result after other cases had run"};
      }
    }
    (*reports)[i].checks.emplace_back("rotated_order");
  }
  return std::optional<Failure>();
}

absl::StatusOr<VerificationReport> Verifier::Verify(const std::vector<CaseUnderTest>& cases,
                                                    const VerifyOptions& options) {
  options_ = options;
  warnings_.clear();
  next_set_ = 0;
  VerificationReport report;
  report.seeds = {options.seed};
  report.check_mode = "not_run: not asked for";
  std::vector<Pass> passes(cases.size());
  std::optional<Failure> failure;
  std::size_t failed_case = 0;
  for (std::size_t i = 0; i < cases.size() && !failure; ++i) {
    const BoundCase& bound_case = cases[i].bound_case;
    CaseReport& one = report.cases.emplace_back();
    one.case_label = bound_case.label;
    one.describe = bound_case.Describe();
    one.unsupported = !cases[i].supported;
    failed_case = i;
    if (one.unsupported) continue;
    if (options_.progress) {
      options_.progress("verifying " + (bound_case.set == CaseSet::kHeldOut ? "a held-out case"
                                                                            : bound_case.label));
    }
    FETTLE_ASSIGN_OR_RETURN(failure, CheckCase(cases[i], i, &one, &passes[i]));
    one.passed = !failure;
  }
  if (options_.first_look) warnings_.emplace_back("a first look: declared inputs alone were tried");
  if (!failure && !options_.first_look) {
    FETTLE_ASSIGN_OR_RETURN(failure, RemainingSets(cases, &report.cases, &failed_case));
    if (failure) report.cases[failed_case].passed = false;
  }
  if (!failure && !options_.first_look) {
    FETTLE_ASSIGN_OR_RETURN(failure, RotatedOrder(cases, passes, &report.cases, &failed_case));
    if (failure) report.cases[failed_case].passed = false;
  }
  report.passed = !failure;
  if (failure) {
    report.failure = Record(*failure, cases[failed_case].bound_case, cases, report.cases);
  }
  for (std::size_t i = 0; i < report.cases.size(); ++i) {
    if (cases[i].bound_case.set == CaseSet::kHeldOut) Scrub(&report.cases[i]);
  }
  std::sort(warnings_.begin(), warnings_.end());
  warnings_.erase(std::unique(warnings_.begin(), warnings_.end()), warnings_.end());
  report.warnings = warnings_;
  return report;
}

VerdictRecord Verifier::Record(const Failure& failure, const BoundCase& bound_case,
                               const std::vector<CaseUnderTest>& cases,
                               const std::vector<CaseReport>& reports) const {
  VerdictRecord record;
  record.verdict = failure.verdict;
  record.stage = Stage::kVerify;
  record.reason_code = failure.reason_code;
  record.evidence = failure.evidence;
  if (bound_case.set != CaseSet::kHeldOut) {
    record.case_label = bound_case.label;
    record.message = fmt::format("{}: {}", bound_case.Describe(), failure.message);
    return record;
  }
  std::vector<BoundCase> passing;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (reports[i].passed) passing.push_back(cases[i].bound_case);
  }
  const std::string found = FailureClass(bound_case, passing);
  record.case_label = "held_out";
  record.message =
      fmt::format("a held-out case failed ({}); its class: {}", failure.reason_code, found);
  record.evidence = {{"class", found}};
  return record;
}

absl::Status Verifier::CheckMode(const std::vector<CaseUnderTest>& cases, const std::string& label,
                                 const VerifyOptions& options, VerificationReport* report) {
  if (!report->passed) return absl::OkStatus();
  options_ = options;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!cases[i].supported) continue;
    const InputSpec spec{DeriveSeed(options_.seed, "check mode", i)};
    RunObservation observation;
    Judgement judgement;
    absl::StatusOr<std::optional<Failure>> outcome =
        RunAndJudge(Request(cases[i], spec), CompareMode::kTolerance, &observation, &judgement);
    if (!outcome.ok()) return outcome.status();
    std::optional<Failure> failure = *std::move(outcome);
    json findings = json::array();
    for (const CheckFinding& finding : observation.findings) {
      if (!finding.is_error) {
        report->warnings.push_back(
            fmt::format("{}: {} ({}:{})", label, finding.message, finding.file, finding.line));
        continue;
      }
      findings.push_back({{"kind", finding.kind},
                          {"message", finding.message},
                          {"file", finding.file},
                          {"line", finding.line}});
    }
    if (!findings.empty()) {
      const json& first = findings[0];
      failure = Failure{Verdict::kIncorrect, "check_mode",
                        fmt::format("{}:{}: {}", first["file"].get<std::string>(),
                                    first["line"].get<int>(), first["message"].get<std::string>())};
      failure->evidence["findings"] = std::move(findings);
    }
    if (!failure) continue;
    failure->message = fmt::format("check mode at {}: {}", label, failure->message);
    report->passed = false;
    report->failure = Record(*failure, cases[i].bound_case, cases, report->cases);
    report->check_mode = "failed";
    return absl::OkStatus();
  }
  report->check_mode = "passed";
  return absl::OkStatus();
}

void Scrub(CaseReport* report) {
  report->case_label = "held_out";
  report->describe.clear();
  for (OutputErrors& errors : report->outputs) {
    errors.compared = 0;
    errors.mismatches = 0;
    errors.first_index = -1;
    errors.expected = errors.actual = 0;
  }
  std::erase_if(report->checks,
                [](const std::string& check) { return check == "other_addresses"; });
}

}  // namespace fettle
