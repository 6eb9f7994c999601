// SPDX-License-Identifier: Apache-2.0
#include "verifier/output_judge.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

// Where output tensor `tensor` stands among the outputs.
std::size_t PositionOf(const std::vector<std::int64_t>& outputs, std::int64_t tensor) {
  return static_cast<std::size_t>(std::find(outputs.begin(), outputs.end(), tensor) -
                                  outputs.begin());
}

void Add(Judgement* judgement, Comparison comparison) {
  if (!comparison.passed && judgement->passed) {
    judgement->passed = false;
    judgement->reason_code = comparison.reason_code;
    judgement->message = comparison.message;
  }
  judgement->outputs.push_back(std::move(comparison));
}

}  // namespace

std::vector<std::int64_t> OutputTensors(const BoundCase& bound_case) {
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    const BoundTensor& tensor = bound_case.tensors[i];
    if (tensor.is_null || (tensor.role != Role::kOut && tensor.role != Role::kInOut)) continue;
    indices.push_back(static_cast<std::int64_t>(i));
  }
  return indices;
}

absl::StatusOr<std::vector<std::vector<std::int64_t>>> OutputJudge::Rows(
    const BoundCase& bound_case, const InputSpec& spec) {
  const std::vector<std::int64_t> indices = OutputTensors(bound_case);
  std::vector<std::vector<std::int64_t>> rows(indices.size());
  // A checker may look at everything.
  if (!reference_.source().checkers.empty()) return rows;
  FETTLE_ASSIGN_OR_RETURN(const auto expected, reference_.Evaluate(bound_case, spec));
  for (const ExpectedOutput& one : expected->outputs) {
    rows[PositionOf(indices, one.tensor)] = one.rows;
  }
  return rows;
}

absl::StatusOr<Judgement> OutputJudge::Judge(const BoundCase& bound_case, const InputSpec& spec,
                                             const std::vector<std::vector<std::uint8_t>>& outputs,
                                             CompareMode mode) {
  const std::vector<std::int64_t> indices = OutputTensors(bound_case);
  if (outputs.size() != indices.size()) {
    return absl::InternalError(
        fmt::format("the runner returned {} outputs of {}", outputs.size(), indices.size()));
  }
  FETTLE_ASSIGN_OR_RETURN(const auto expected, reference_.Evaluate(bound_case, spec));
  Judgement judgement;
  judgement.passed = true;
  for (const ExpectedOutput& one : expected->outputs) {
    const BoundTensor& tensor = bound_case.tensors[static_cast<std::size_t>(one.tensor)];
    Add(&judgement, CompareOutput(tensor, ToleranceFor(bound_case, one.name), one,
                                  outputs[PositionOf(indices, one.tensor)], mode));
  }
  FETTLE_RETURN_IF_ERROR(RunCheckers(bound_case, spec, outputs, &judgement));
  return judgement;
}

absl::Status OutputJudge::RunCheckers(const BoundCase& bound_case, const InputSpec& spec,
                                      const std::vector<std::vector<std::uint8_t>>& outputs,
                                      Judgement* judgement) {
  const auto& checkers = reference_.source().checkers;
  for (std::size_t c = 0; c < checkers.size(); ++c) {
    FETTLE_ASSIGN_OR_RETURN(const CheckerResult result,
                            reference_.Check(bound_case, spec, c, outputs));
    Comparison comparison;
    comparison.errors.output = fmt::format("{}", fmt::join(checkers[c].outputs, "+"));
    comparison.errors.worst = std::isnan(result.worst) ? 1e300 : result.worst;
    comparison.errors.rms = std::isnan(result.mean_square) ? 0 : std::sqrt(result.mean_square);
    comparison.errors.first_index = result.element;
    comparison.passed = result.worst <= 1;  // NaN fails.
    if (!comparison.passed) {
      comparison.errors.mismatches = 1;
      comparison.reason_code = "checker";
      comparison.message = fmt::format("checker {}: {:.3g} of what is allowed: {}",
                                       checkers[c].function, comparison.errors.worst,
                                       result.message.empty() ? "no message" : result.message);
    }
    Add(judgement, std::move(comparison));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::int64_t> OutputJudge::Spread(
    const BoundCase& bound_case, const InputSpec& spec,
    const std::vector<std::vector<std::uint8_t>>& first,
    const std::vector<std::vector<std::uint8_t>>& second) {
  const std::vector<std::int64_t> indices = OutputTensors(bound_case);
  FETTLE_ASSIGN_OR_RETURN(const auto expected, reference_.Evaluate(bound_case, spec));
  std::int64_t over = 0;
  for (const ExpectedOutput& one : expected->outputs) {
    const std::size_t at = PositionOf(indices, one.tensor);
    const BoundTensor& tensor = bound_case.tensors[static_cast<std::size_t>(one.tensor)];
    if (one.values.empty()) {
      over += first[at] != second[at];
      continue;
    }
    over += CountSpread(tensor, ToleranceFor(bound_case, one.name), one, first[at], second[at]);
  }
  return over;
}

}  // namespace fettle
