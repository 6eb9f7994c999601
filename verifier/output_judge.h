// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "core/bound.h"
#include "verifier/compare.h"
#include "verifier/inputs.h"
#include "verifier/reference.h"

namespace fettle {

// All outputs of one call, judged.
struct Judgement {
  bool passed = false;
  std::string reason_code, message;  // Of the first output that failed.
  std::vector<Comparison> outputs;   // In case order; checkers give one per output they judge.
};

// Judges outputs by the task's own rules: tolerances against the reference, custom checkers.
// Borrows the reference. Errors are the reference's.
class OutputJudge {
 public:
  explicit OutputJudge(Reference& reference) : reference_(reference) {}

  // For each output in case order, the rows that Judge compares; empty: all of them.
  absl::StatusOr<std::vector<std::vector<std::int64_t>>> Rows(const BoundCase& bound_case,
                                                              const InputSpec& spec);
  // `outputs` as in RunObservation, or of each output Rows alone.
  absl::StatusOr<Judgement> Judge(const BoundCase& bound_case, const InputSpec& spec,
                                  const std::vector<std::vector<std::uint8_t>>& outputs,
                                  CompareMode mode = CompareMode::kTolerance);
  // Elements, over all outputs judged by tolerance, in which two calls differ by more than half the
  // tolerance.
  absl::StatusOr<std::int64_t> Spread(const BoundCase& bound_case, const InputSpec& spec,
                                      const std::vector<std::vector<std::uint8_t>>& first,
                                      const std::vector<std::vector<std::uint8_t>>& second);

  Reference& reference() { return reference_; }

 private:
  absl::Status RunCheckers(const BoundCase& bound_case, const InputSpec& spec,
                           const std::vector<std::vector<std::uint8_t>>& outputs,
                           Judgement* judgement);
  Reference& reference_;
};

// Indices of the case's output tensors (out and inout, not null), in case order.
std::vector<std::int64_t> OutputTensors(const BoundCase& bound_case);

}  // namespace fettle
