// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/verdict.h"
#include "verifier/output_judge.h"
#include "verifier/verify.h"

namespace fettle {

// A wrong output made from a right one.
struct Mutation {
  std::string name;                 // "zeros", "one_element_high", "rows_swapped", ...
  std::int64_t tensor = 0;          // The output it changes.
  std::vector<std::uint8_t> bytes;  // That output, dense.
  bool must_fail = true;            // Else passing is only worth a warning.
};

// Every mutation of integrity rule 2.8 that applies to output `expected` of the case and differs
// from the right answer. `right` is the reference rounded; `other_seed` the same output for other
// inputs; `inputs` as MakeInputs returns them.
std::vector<Mutation> MakeMutations(const BoundCase& bound_case, const ExpectedOutput& expected,
                                    const std::vector<std::uint8_t>& right,
                                    const std::vector<std::uint8_t>& other_seed,
                                    const std::vector<std::vector<std::uint8_t>>& inputs,
                                    std::uint64_t seed);

// What registration found out about a task's checker.
struct CheckerTest {
  bool accepted = false;
  VerdictRecord failure;        // REFUSED at stage register, when not accepted.
  nlohmann::json registration;  // {"mutations": [...], "findings": [...], "cases": n}
};

// Tests the task's own tolerances and checkers: known-bad outputs must be rejected, the rounded
// reference and the baseline must pass, and outputs must depend on the inputs. `cases` carry the
// baseline as `kernel`; held-out cases, and large ones where smaller ones exist, are left out.
// `baseline_source` is its text: a reference with the same text judges nothing.
//
// Errors: those of Reference; a crash of the baseline is a refusal.
absl::StatusOr<CheckerTest> TestChecker(const std::vector<CaseUnderTest>& cases,
                                        std::string_view baseline_source, RunnerSession& session,
                                        Reference& reference, const VerifyOptions& options);

}  // namespace fettle
