// SPDX-License-Identifier: Apache-2.0
#include "verifier/mutation.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "device/tensor_layout.h"
#include "verifier/random.h"

namespace fettle {
namespace {

using nlohmann::json;
using Bytes = std::vector<std::uint8_t>;

// Outputs with at least this many elements must reject every mutation; smaller ones may agree with
// one by chance, but some case must reject it.
constexpr std::int64_t kTelling = 16;
// Where none did, small cases are drawn so many times more.
constexpr int kFurtherDraws = 15;
// A case of more elements may hang on one number all the same (one key's weight in attention):
// where it accepts a wrong answer it is drawn so many times more, until most draws reject it.
constexpr int kTellingDraws = 8;

bool HasSmallOutput(const BoundCase& bound_case) {
  const std::vector<std::int64_t> outputs = OutputTensors(bound_case);
  return std::any_of(outputs.begin(), outputs.end(), [&bound_case](std::int64_t index) {
    const std::int64_t count = bound_case.tensors[static_cast<std::size_t>(index)].elements();
    return count > 0 && count < kTelling;
  });
}

// The session of one test.
class Tester {
 public:
  Tester(RunnerSession& session, Reference& reference, const VerifyOptions& options)
      : session_(session), judge_(reference), options_(options) {}

  // `draw`: which of the inputs that the case may be tested on.
  absl::Status TestCase(const CaseUnderTest& one, std::size_t index, int draw = 0);
  // Whether some mutation passed so far, but nowhere where that tells.
  bool PassedByChance() const;
  // Whether some mutation passes in most draws of case `index`, which is large enough to tell.
  bool PassesIn(std::size_t index) const;
  CheckerTest Finish(std::size_t cases);
  void Refuse(const std::string& code, const std::string& label, const std::string& message);
  bool refused() const { return refused_; }

 private:
  // Per output: what is known over all cases.
  struct Seen {
    bool varies = false;       // Within some case.
    bool inputs_vary = false;  // Some input is drawn from the seed.
    bool depends_on_seed = false;
    std::int64_t most_elements = 0;
  };
  // How a mutation fared over all cases.
  struct Tally {
    int tried = 0, rejected = 0;
    bool must_fail = true;
    struct Draws {
      std::string label;
      int tried = 0, passed = 0;
      bool mostly_pass() const { return 2 * passed > tried; }
    };
    std::map<std::size_t, Draws> telling;  // By case.

    // A telling case that accepts it; empty: none.
    std::string passed_in() const {
      for (const auto& [index, draws] : telling) {
        if (draws.mostly_pass()) return draws.label;
      }
      return "";
    }
  };

  absl::StatusOr<std::vector<Bytes>> RightOutputs(const BoundCase& bound_case,
                                                  const InputSpec& spec, const Expected& expected,
                                                  const std::vector<Bytes>& baseline);
  absl::Status TestOutput(const CaseUnderTest& one, std::size_t index, const InputSpec& spec,
                          const std::vector<Bytes>& right, const std::vector<Bytes>& other,
                          const std::vector<Bytes>& inputs, std::size_t position);
  absl::StatusOr<std::vector<Bytes>> RunBaseline(const CaseUnderTest& one, const InputSpec& spec);

  RunnerSession& session_;
  OutputJudge judge_;
  const VerifyOptions& options_;
  json mutations_ = json::array(), findings_ = json::array();
  std::map<std::pair<std::string, std::string>, Tally> tallies_;  // (output, mutation).
  std::map<std::string, Seen> seen_;
  bool refused_ = false;
  VerdictRecord failure_;
};

void Tester::Refuse(const std::string& code, const std::string& label, const std::string& message) {
  findings_.push_back({{"severity", "error"}, {"code", code}, {"message", message}});
  if (refused_) return;
  refused_ = true;
  failure_.verdict = Verdict::kRefused;
  failure_.stage = Stage::kRegister;
  failure_.reason_code = code;
  failure_.case_label = label;
  failure_.message = message;
  failure_.evidence = json::object();
}

absl::StatusOr<std::vector<Bytes>> Tester::RunBaseline(const CaseUnderTest& one,
                                                       const InputSpec& spec) {
  RunRequest request;
  request.bound_case = one.bound_case;
  request.kernel = one.kernel;
  request.input_seed = spec.seed;
  request.launch_limit = options_.launch_limit;
  request.files = FillFiles(one.bound_case, options_.files);
  const absl::StatusOr<RunObservation> run = session_.RunCase(request);
  if (run.ok()) return run->outputs;
  const absl::StatusCode code = run.status().code();
  if (code == absl::StatusCode::kInvalidArgument || code == absl::StatusCode::kAborted ||
      code == absl::StatusCode::kDeadlineExceeded) {
    Refuse("baseline_failed", one.bound_case.label,
           fmt::format("the baseline fails on {}: {}", one.bound_case.Describe(),
                       std::string(run.status().message())));
    return std::vector<Bytes>();
  }
  return run.status();
}

// The reference rounded; outputs that only a checker knows come from the baseline.
absl::StatusOr<std::vector<Bytes>> Tester::RightOutputs(const BoundCase& bound_case,
                                                        const InputSpec& spec,
                                                        const Expected& expected,
                                                        const std::vector<Bytes>& baseline) {
  std::vector<Bytes> right = baseline;
  const std::vector<std::int64_t> indices = OutputTensors(bound_case);
  for (const ExpectedOutput& one : expected.outputs) {
    const auto at = static_cast<std::size_t>(std::find(indices.begin(), indices.end(), one.tensor) -
                                             indices.begin());
    right[at] = RoundExpected(bound_case.tensors[static_cast<std::size_t>(one.tensor)], one);
  }
  FETTLE_ASSIGN_OR_RETURN(const Judgement judgement, judge_.Judge(bound_case, spec, right));
  if (!judgement.passed) {
    Refuse(
        "reference_rejected", bound_case.label,
        fmt::format("the reference, rounded to the output's dtype, is rejected on {}: {}; loosen "
                    "the tolerance or correct the checker",
                    bound_case.Describe(), judgement.message));
  }
  return right;
}

bool Tester::PassedByChance() const {
  return std::any_of(tallies_.begin(), tallies_.end(), [](const auto& one) {
    return one.second.rejected == 0 && one.second.passed_in().empty();
  });
}

bool Tester::PassesIn(std::size_t index) const {
  return std::any_of(tallies_.begin(), tallies_.end(), [index](const auto& one) {
    const auto found = one.second.telling.find(index);
    return found != one.second.telling.end() && found->second.mostly_pass();
  });
}

absl::Status Tester::TestCase(const CaseUnderTest& one, std::size_t index, int draw) {
  const BoundCase& bound_case = one.bound_case;
  const std::string more = draw == 0 ? "" : fmt::format(", draw {}", draw);
  const InputSpec spec{DeriveSeed(options_.seed, "mutation" + more, index)};
  const InputSpec other_spec{DeriveSeed(options_.seed, "mutation, other seed" + more, index)};
  FETTLE_ASSIGN_OR_RETURN(const std::vector<Bytes> baseline, RunBaseline(one, spec));
  if (refused_) return absl::OkStatus();
  FETTLE_ASSIGN_OR_RETURN(const Judgement judgement, judge_.Judge(bound_case, spec, baseline));
  if (!judgement.passed) {
    Refuse("baseline_rejected", bound_case.label,
           fmt::format("the baseline itself is rejected on {}: {}", bound_case.Describe(),
                       judgement.message));
    return absl::OkStatus();
  }
  FETTLE_ASSIGN_OR_RETURN(const auto expected, judge_.reference().Evaluate(bound_case, spec));
  FETTLE_ASSIGN_OR_RETURN(const std::vector<Bytes> right,
                          RightOutputs(bound_case, spec, *expected, baseline));
  if (refused_) return absl::OkStatus();
  FETTLE_ASSIGN_OR_RETURN(const std::vector<Bytes> other_baseline, RunBaseline(one, other_spec));
  if (refused_) return absl::OkStatus();
  FETTLE_ASSIGN_OR_RETURN(const auto other_expected,
                          judge_.reference().Evaluate(bound_case, other_spec));
  FETTLE_ASSIGN_OR_RETURN(const std::vector<Bytes> other,
                          RightOutputs(bound_case, other_spec, *other_expected, other_baseline));
  FETTLE_ASSIGN_OR_RETURN(const std::vector<Bytes> inputs,
                          MakeInputs(bound_case, spec, options_.files));
  for (std::size_t i = 0; i < right.size() && !refused_; ++i) {
    FETTLE_RETURN_IF_ERROR(TestOutput(one, index, spec, right, other, inputs, i));
  }
  return absl::OkStatus();
}

absl::Status Tester::TestOutput(const CaseUnderTest& one, std::size_t case_index,
                                const InputSpec& spec, const std::vector<Bytes>& right,
                                const std::vector<Bytes>& other, const std::vector<Bytes>& inputs,
                                std::size_t position) {
  const BoundCase& bound_case = one.bound_case;
  const std::int64_t index = OutputTensors(bound_case)[position];
  const BoundTensor& tensor = bound_case.tensors[static_cast<std::size_t>(index)];
  const std::int64_t count = tensor.elements();
  Seen& seen = seen_[tensor.name];
  seen.most_elements = std::max(seen.most_elements, count);
  if (count == 0) return absl::OkStatus();
  seen.depends_on_seed |= right[position] != other[position];
  seen.inputs_vary |= std::any_of(bound_case.tensors.begin(), bound_case.tensors.end(), CanFlip);
  const auto size = static_cast<std::ptrdiff_t>(SizeOf(tensor.dtype));
  for (std::ptrdiff_t e = size; e + size <= static_cast<std::ptrdiff_t>(right[position].size());
       e += size) {
    seen.varies |= !std::equal(right[position].begin(), right[position].begin() + size,
                               right[position].begin() + e);
  }
  FETTLE_ASSIGN_OR_RETURN(const auto all, judge_.reference().Evaluate(bound_case, spec));
  ExpectedOutput expected;
  expected.tensor = index;
  for (const ExpectedOutput& candidate : all->outputs) {
    if (candidate.tensor == index) expected = candidate;
  }
  for (Mutation& mutation :
       MakeMutations(bound_case, expected, right[position], other[position], inputs, spec.seed)) {
    std::vector<Bytes> outputs = right;
    outputs[position] = std::move(mutation.bytes);
    FETTLE_ASSIGN_OR_RETURN(const Judgement judgement, judge_.Judge(bound_case, spec, outputs));
    bool rejected = !judgement.passed;
    if (!rejected && mutation.name == "rounded_to_f16") {  // The error budget would catch it.
      for (const Comparison& comparison : judgement.outputs) {
        if (comparison.errors.output != tensor.name) continue;
        rejected |= OverBudget(tensor, comparison, BaselineError()).has_value();
      }
    }
    Tally& tally = tallies_[{tensor.name, mutation.name}];
    ++tally.tried;
    tally.rejected += rejected;
    tally.must_fail = mutation.must_fail;
    if (count >= kTelling) {
      Tally::Draws& draws = tally.telling[case_index];
      draws.label = bound_case.label;
      ++draws.tried;
      draws.passed += !rejected;
    }
    mutations_.push_back({{"mutation", mutation.name},
                          {"output", tensor.name},
                          {"case", bound_case.label},
                          {"rejected", rejected}});
  }
  return absl::OkStatus();
}

CheckerTest Tester::Finish(std::size_t cases) {
  for (const auto& [name, tally] : tallies_) {
    const auto& [output, mutation] = name;
    const std::string passed_in = tally.passed_in();
    if (passed_in.empty() && tally.rejected > 0) continue;
    const std::string where = passed_in.empty() ? "every case" : "case " + passed_in;
    const std::string message = fmt::format(
        "the task accepts a wrong {}: '{}' passes in {}; tighten its tolerance, or change "
        "the inputs so that the answer shows",
        output, mutation, where);
    if (tally.must_fail) {
      Refuse(mutation + "_passes", passed_in, message);
    } else {
      findings_.push_back(
          {{"severity", "warning"}, {"code", mutation + "_passes"}, {"message", message}});
    }
  }
  for (const auto& [output, seen] : seen_) {
    if (seen.most_elements == 0) {
      Refuse("output_never_compared", "", fmt::format("output {} is empty in every case", output));
    } else if (seen.inputs_vary && !seen.depends_on_seed) {
      Refuse(
          "constant_output", "",
          fmt::format("output {} does not depend on the inputs in any case: a constant would pass",
                      output));
    } else if (!seen.varies && seen.most_elements >= kTelling) {
      Refuse("constant_output", "",
             fmt::format("all elements of output {} are equal in every case: a constant fill would "
                         "pass",
                         output));
    }
  }
  CheckerTest result;
  result.accepted = !refused_;
  result.failure = failure_;
  result.registration = {{"cases", cases}, {"mutations", mutations_}, {"findings", findings_}};
  return result;
}

}  // namespace

absl::StatusOr<CheckerTest> TestChecker(const std::vector<CaseUnderTest>& cases,
                                        std::string_view baseline_source, RunnerSession& session,
                                        Reference& reference, const VerifyOptions& options) {
  Tester tester(session, reference, options);
  const ReferenceSource& source = reference.source();
  if (const auto file = source.files.find(source.reference.file);
      source.kind == "cxx" && file != source.files.end() && file->second == baseline_source) {
    tester.Refuse(
        "self_reference", "",
        "the reference is the baseline itself; write it independently, in double precision");
  }
  constexpr std::int64_t kSmall = 1 << 20;
  std::int64_t limit = kSmall;
  if (std::none_of(cases.begin(), cases.end(), [](const CaseUnderTest& one) {
        return one.supported && one.bound_case.set != CaseSet::kHeldOut &&
               ElementsOf(one.bound_case) <= kSmall && ElementsOf(one.bound_case) > 0;
      })) {
    limit = std::numeric_limits<std::int64_t>::max();
  }
  const auto takes_part = [&cases, limit](std::size_t i) {
    // Held-out cases stay out: what is found here is shown.
    return cases[i].supported && cases[i].bound_case.set != CaseSet::kHeldOut &&
           ElementsOf(cases[i].bound_case) <= limit;
  };
  std::size_t tested = 0;
  for (std::size_t i = 0; i < cases.size() && !tester.refused(); ++i) {
    if (!takes_part(i)) continue;
    if (options.stop.stop_requested()) return absl::CancelledError("the checker test was stopped");
    if (options.progress) options.progress("testing the checker on " + cases[i].bound_case.label);
    FETTLE_RETURN_IF_ERROR(tester.TestCase(cases[i], i));
    ++tested;
  }
  for (int draw = 1; draw <= kFurtherDraws; ++draw) {
    for (std::size_t i = 0; i < cases.size() && !tester.refused(); ++i) {
      const bool again = (tester.PassedByChance() && HasSmallOutput(cases[i].bound_case)) ||
                         (draw <= kTellingDraws && tester.PassesIn(i));
      if (!takes_part(i) || !again) continue;
      if (options.stop.stop_requested()) {
        return absl::CancelledError("the checker test was stopped");
      }
      FETTLE_RETURN_IF_ERROR(tester.TestCase(cases[i], i, draw));
    }
  }
  if (tested == 0 && !tester.refused()) {
    tester.Refuse("no_cases", "", "no case could be tested; the baseline supports none of them");
  }
  return tester.Finish(tested);
}

}  // namespace fettle
