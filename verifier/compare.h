// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/bound.h"
#include "core/evidence.h"
#include "verifier/expected.h"

namespace fettle {

// How one output was judged. A failure is a value.
struct Comparison {
  OutputErrors errors;
  bool passed = false;
  std::string reason_code;   // "class_mismatch", "tolerance", "exact"; empty when passed.
  std::string message;       // "y[12]: expected 1.5, got NaN; 3 of 4096 elements differ".
  double max_error = 0;      // Largest absolute error over elements finite on both sides.
  double max_reference = 0;  // Largest |reference|.
  // What sums taken in another order, in the precision that the contract names, may add to an
  // element's error: over all elements. 0 without an `auto` tolerance.
  double order_rms = 0, max_order = 0;
};

// Largest error that element `i` of the expected rows may have: FORMAT.md `auto` and {rtol, atol}.
// Integers and exact outputs: 0.
class ElementTolerance {
 public:
  ElementTolerance(const BoundTolerance& tolerance, DType dtype, const ExpectedOutput& expected);
  double operator()(std::int64_t i) const;
  // Error of element `i` from an order of summation other than the baseline's, of `auto`
  // tolerances, else 0: (min(sqrt(L) / 3, 8) u_acc + u_inner) M. One running sum of L random terms
  // of one sign errs by about 0.23 sqrt(L) u M (each step rounds by 0.4 u of what there is), so
  // that up to 1,000 terms in a row pass; inputs cut to TF32 err by 0.9 2^13 / sqrt(L) u M, which
  // is more for all L below 800,000.
  double OrderError(std::int64_t i) const;

 private:
  double Length(std::int64_t i) const;
  double Magnitude(std::int64_t i) const;

  const ExpectedOutput& expected_;
  BoundTolerance::Kind kind_;
  double rtol_ = 0, atol_ = 0, out_ = 0, half_subnormal_ = 0, acc_ = 0, inner_ = 0, length_ = 1;
};

// How an output is to be compared.
enum class CompareMode {
  kTolerance,  // By its tolerance.
  kExact,      // Every element is the reference rounded to the dtype (exact-integer probes).
};

// Compares a candidate's dense bytes, or the dense bytes of the expected rows alone, one after
// another, with the reference: classes of NaN and infinities first, then
// the bound, written so that NaN never passes. Where the rounded reference passes the dtype's
// range, infinity (or NaN in dtypes without one) and the largest value are both right. Every
// expected element is compared; large outputs by several threads.
Comparison CompareOutput(const BoundTensor& tensor, const BoundTolerance& tolerance,
                         const ExpectedOutput& expected, std::span<const std::uint8_t> dense,
                         CompareMode mode = CompareMode::kTolerance);

// What an honest kernel's output looked like, for the error budget.
struct BaselineError {
  double rms = 0, max_error = 0;
};

// The error budget of integrity rule 2.2(3): nothing when the candidate is within
// max(2 x baseline RMS, u RMS(reference), RMS of OrderError) and max(4 x baseline maximum,
// 4 u max|reference|, 4 x largest OrderError), else a message. The last of each is ours: without it
// an honest sum in 32 parts was over the budget for long rows, where the baseline sums as a tree.
// Outputs with fewer than 1024 compared elements, or judged exactly, pass.
std::optional<std::string> OverBudget(const BoundTensor& tensor, const Comparison& candidate,
                                      const BaselineError& baseline);

// Elements of two runs that differ by more than half of their tolerance; for outputs declared
// non-deterministic.
std::int64_t CountSpread(const BoundTensor& tensor, const BoundTolerance& tolerance,
                         const ExpectedOutput& expected, std::span<const std::uint8_t> first,
                         std::span<const std::uint8_t> second);

// The tolerance entry of an output; exact values where the case has none.
BoundTolerance ToleranceFor(const BoundCase& bound_case, std::string_view output);

// Position in the dense output of element `i` of the expected rows.
std::int64_t DenseIndex(const ExpectedOutput& expected, std::int64_t i);

// Dense bytes of the expected rows.
std::int64_t PackedBytes(const BoundTensor& tensor, const ExpectedOutput& expected);

// The expected rows rounded to the dtype, as dense bytes of the whole output; rows that were not
// asked for are zero.
std::vector<std::uint8_t> RoundExpected(const BoundTensor& tensor, const ExpectedOutput& expected);

}  // namespace fettle
