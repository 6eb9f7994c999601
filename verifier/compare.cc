// SPDX-License-Identifier: Apache-2.0
#include "verifier/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "device/tensor_layout.h"
#include "verifier/parallel.h"

namespace fettle {
namespace {

constexpr std::int64_t kChunk = 1 << 15;
constexpr double kHuge = 1e300;  // Stands for infinity, which JSON lacks.
constexpr std::int64_t kBudgetElements = 1024;

using Size = std::size_t;

double Decode(DType dtype, const std::uint8_t* bytes, std::int64_t index) {
  return IsFloat(dtype) ? DecodeFloat(dtype, bytes, index)
                        : static_cast<double>(DecodeInteger(dtype, bytes, index));
}

struct Partial {
  double worst = 0, square = 0, reference_square = 0, max_error = 0, max_reference = 0;
  double order_square = 0, max_order = 0;
  std::int64_t mismatches = 0, class_mismatches = 0, first = -1;
};

enum class Judgement { kSame, kWithin, kOver, kClass };

// Judges one element.
class Judge {
 public:
  Judge(DType dtype, const ElementTolerance& tolerance, const ExpectedOutput& expected, bool exact,
        bool signed_zero)
      : signed_zero_(signed_zero),
        dtype_(dtype),
        tolerance_(tolerance),
        expected_(expected),
        exact_(exact || IsInteger(dtype)),
        max_finite_(IsFloat(dtype) ? MaxFinite(dtype) : 0) {}

  Judgement operator()(std::int64_t i, double actual, double* error, double* over) const {
    const double want = expected_.values[static_cast<Size>(i)];
    *error = *over = 0;
    if (std::isnan(want)) return std::isnan(actual) ? Judgement::kSame : Judgement::kClass;
    const double tolerance = exact_ ? 0 : tolerance_(i);
    if (std::isfinite(want) && IsFloat(dtype_) && std::fabs(want) + tolerance > max_finite_ &&
        OutOfRange(want, actual, tolerance)) {
      return Judgement::kSame;
    }
    if (!std::isfinite(want) || !std::isfinite(actual)) {
      return want == actual ? Judgement::kSame : Judgement::kClass;
    }
    const double target = exact_ && IsFloat(dtype_) ? RoundTo(dtype_, want) : want;
    *error = std::fabs(actual - want);
    const double distance = std::fabs(actual - target);
    if (distance == 0 && !(signed_zero_ && std::signbit(actual) != std::signbit(target))) {
      return Judgement::kSame;
    }
    *over = tolerance > 0 ? std::min(distance / tolerance, kHuge) : kHuge;
    return exact_ || !(distance <= tolerance) ? Judgement::kOver : Judgement::kWithin;
  }

 private:
  // A reference at the end of the dtype's range: overflow and saturation are both right.
  bool OutOfRange(double want, double actual, double tolerance) const {
    if (std::isnan(actual)) return !HasInfinity(dtype_) && std::fabs(want) > max_finite_;
    if (std::signbit(actual) != std::signbit(want)) return false;
    if (std::isinf(actual)) return true;
    return std::fabs(actual) == max_finite_ && std::fabs(want) + tolerance >= max_finite_;
  }

  bool signed_zero_;
  DType dtype_;
  const ElementTolerance& tolerance_;
  const ExpectedOutput& expected_;
  bool exact_;
  double max_finite_;
};

// A candidate's bytes: of the whole output, or of the expected rows alone.
struct Actual {
  const std::uint8_t* bytes = nullptr;
  bool packed = false;

  Actual(const BoundTensor& tensor, const ExpectedOutput& expected,
         std::span<const std::uint8_t> given)
      : bytes(given.data()),
        packed(static_cast<std::int64_t>(given.size()) != DenseBytes(tensor) &&
               static_cast<std::int64_t>(given.size()) == PackedBytes(tensor, expected)) {}
  // Where element `i` of the expected rows stands in `bytes`.
  std::int64_t At(const ExpectedOutput& expected, std::int64_t i) const {
    return packed ? i : DenseIndex(expected, i);
  }
};

Partial CompareChunk(DType dtype, const Judge& judge, const ElementTolerance& tolerance,
                     const ExpectedOutput& expected, const Actual& given, std::int64_t begin,
                     std::int64_t end) {
  Partial part;
  for (std::int64_t i = begin; i < end; ++i) {
    const double actual = Decode(dtype, given.bytes, given.At(expected, i));
    double error = 0, over = 0;
    const Judgement judgement = judge(i, actual, &error, &over);
    const double want = expected.values[static_cast<Size>(i)];
    if (std::isfinite(want)) {
      part.reference_square += want * want;
      part.max_reference = std::max(part.max_reference, std::fabs(want));
      const double order = tolerance.OrderError(i);
      if (std::isfinite(order)) {
        part.order_square += order * order;
        part.max_order = std::max(part.max_order, order);
      }
    }
    part.square += error * error;
    part.max_error = std::max(part.max_error, error);
    part.worst = std::max(part.worst, judgement == Judgement::kClass ? kHuge : over);
    if (judgement == Judgement::kOver || judgement == Judgement::kClass) {
      ++part.mismatches;
      part.class_mismatches += judgement == Judgement::kClass;
      if (part.first < 0) part.first = i;
    }
  }
  return part;
}

void Fail(Comparison* result, std::string code) {
  const OutputErrors& errors = result->errors;
  result->passed = false;
  result->reason_code = std::move(code);
  result->message = fmt::format(
      "{}[{}]: expected {:.9g}, got {:.9g}; {} of {} compared elements differ", errors.output,
      errors.first_index, errors.expected, errors.actual, errors.mismatches, errors.compared);
}

// The bytes themselves.
Comparison CompareBits(const BoundTensor& tensor, const ExpectedOutput& expected,
                       const Actual& given) {
  Comparison result;
  result.errors.output = tensor.name;
  const std::int64_t count =
      expected.rows.empty()
          ? tensor.elements()
          : static_cast<std::int64_t>(expected.rows.size()) * expected.row_elements;
  const std::int64_t size = SizeOf(tensor.dtype);
  const bool shares_bytes = tensor.dtype == DType::kF4E2M1X2;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = given.At(expected, i);
    const bool same = shares_bytes
                          ? Decode(tensor.dtype, given.bytes, at) ==
                                Decode(tensor.dtype, expected.bytes.data(), i)
                          : std::memcmp(given.bytes + at * size, expected.bytes.data() + i * size,
                                        static_cast<Size>(size)) == 0;
    if (same) continue;
    if (result.errors.mismatches++ == 0) {
      result.errors.first_index = DenseIndex(expected, i);
      result.errors.expected = Decode(tensor.dtype, expected.bytes.data(), i);
      result.errors.actual = Decode(tensor.dtype, given.bytes, at);
    }
  }
  result.errors.compared = count;
  result.errors.worst = result.errors.mismatches > 0 ? kHuge : 0;
  result.passed = result.errors.mismatches == 0;
  if (!result.passed) Fail(&result, "exact");
  return result;
}

}  // namespace

ElementTolerance::ElementTolerance(const BoundTolerance& tolerance, DType dtype,
                                   const ExpectedOutput& expected)
    : expected_(expected), kind_(tolerance.kind), rtol_(tolerance.rtol), atol_(tolerance.atol) {
  if (IsInteger(dtype) && kind_ == BoundTolerance::Kind::kAuto) {
    kind_ = BoundTolerance::Kind::kExactValues;
  }
  if (kind_ != BoundTolerance::Kind::kAuto) return;
  out_ = 2 * UnitRoundoff(dtype);
  half_subnormal_ = SmallestSubnormal(dtype) / 2;
  acc_ = 4 * UnitRoundoff(tolerance.acc);
  inner_ = tolerance.inner ? 3 * UnitRoundoff(*tolerance.inner) : 0;
  length_ = static_cast<double>(std::max<std::int64_t>(1, tolerance.reduce));
}

double ElementTolerance::operator()(std::int64_t i) const {
  const auto at = static_cast<Size>(i);
  const double reference = std::fabs(expected_.values[at]);
  switch (kind_) {
    case BoundTolerance::Kind::kRelative:
      return atol_ + rtol_ * reference;
    case BoundTolerance::Kind::kAuto: {
      const double magnitude = Magnitude(i);
      return out_ * reference + half_subnormal_ + acc_ * std::sqrt(Length(i)) * magnitude +
             inner_ * magnitude;
    }
    default:
      return 0;
  }
}

double ElementTolerance::Length(std::int64_t i) const {
  if (expected_.length.empty()) return length_;
  return std::max(1.0, expected_.length[expected_.length.size() == 1 ? 0 : static_cast<Size>(i)]);
}

double ElementTolerance::Magnitude(std::int64_t i) const {
  const auto at = static_cast<Size>(i);
  const double reference = std::fabs(expected_.values[at]);
  return expected_.magnitude.empty() ? reference : std::max(reference, expected_.magnitude[at]);
}

double ElementTolerance::OrderError(std::int64_t i) const {
  if (kind_ != BoundTolerance::Kind::kAuto) return 0;
  return (std::min(std::sqrt(Length(i)) / 3, 8.0) * acc_ / 4 + inner_ / 3) * Magnitude(i);
}

std::int64_t DenseIndex(const ExpectedOutput& expected, std::int64_t i) {
  if (expected.rows.empty()) return i;
  return expected.rows[static_cast<Size>(i / expected.row_elements)] * expected.row_elements +
         i % expected.row_elements;
}

std::int64_t PackedBytes(const BoundTensor& tensor, const ExpectedOutput& expected) {
  if (expected.rows.empty()) return DenseBytes(tensor);
  return static_cast<std::int64_t>(expected.rows.size()) *
         StorageBytes(tensor.dtype, expected.row_elements);
}

BoundTolerance ToleranceFor(const BoundCase& bound_case, std::string_view output) {
  for (const BoundTolerance& tolerance : bound_case.tolerances) {
    if (tolerance.output == output) return tolerance;
  }
  BoundTolerance exact;
  exact.output = output;
  exact.kind = BoundTolerance::Kind::kExactValues;
  return exact;
}

Comparison CompareOutput(const BoundTensor& tensor, const BoundTolerance& tolerance,
                         const ExpectedOutput& expected, std::span<const std::uint8_t> dense,
                         CompareMode mode) {
  const Actual given(tensor, expected, dense);
  if (!given.packed && static_cast<std::int64_t>(dense.size()) != DenseBytes(tensor)) {
    Comparison wrong;
    wrong.errors.output = tensor.name;
    wrong.reason_code = "exact";
    wrong.message = fmt::format("{}: {} bytes came back, {} are needed", tensor.name, dense.size(),
                                DenseBytes(tensor));
    return wrong;
  }
  const bool bits = tolerance.kind == BoundTolerance::Kind::kExactBits;
  if (bits && (!expected.bytes.empty() || expected.values.empty())) {
    return CompareBits(tensor, expected, given);
  }
  const ElementTolerance bound(tolerance, tensor.dtype, expected);
  const bool integers_within = IsInteger(tensor.dtype) && mode == CompareMode::kTolerance &&
                               tolerance.kind == BoundTolerance::Kind::kRelative;
  const bool exact =
      mode == CompareMode::kExact || bits || tolerance.kind == BoundTolerance::Kind::kExactValues;
  // Integer outputs are exact unless the task gives rtol and atol.
  const DType judged = integers_within ? DType::kF64 : tensor.dtype;
  const Judge judge(judged, bound, expected, exact, /*signed_zero=*/bits && IsFloat(tensor.dtype));
  const auto count = static_cast<std::int64_t>(expected.values.size());
  std::vector<Partial> parts(static_cast<Size>((count + kChunk - 1) / kChunk));
  ParallelFor(
      static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p) {
          parts[static_cast<Size>(p)] = CompareChunk(tensor.dtype, judge, bound, expected, given,
                                                     p * kChunk, std::min(count, (p + 1) * kChunk));
        }
      });
  Comparison result;
  Partial total;
  for (const Partial& part : parts) {
    total.worst = std::max(total.worst, part.worst);
    total.square += part.square;
    total.reference_square += part.reference_square;
    total.mismatches += part.mismatches;
    total.class_mismatches += part.class_mismatches;
    if (total.first < 0) total.first = part.first;
    result.max_error = std::max(result.max_error, part.max_error);
    result.max_reference = std::max(result.max_reference, part.max_reference);
    total.order_square += part.order_square;
    result.max_order = std::max(result.max_order, part.max_order);
  }
  OutputErrors& errors = result.errors;
  errors.output = tensor.name;
  errors.worst = total.worst;
  errors.compared = count;
  errors.mismatches = total.mismatches;
  if (count > 0) {
    errors.rms = std::sqrt(total.square / static_cast<double>(count));
    errors.reference_rms = std::sqrt(total.reference_square / static_cast<double>(count));
    result.order_rms = std::sqrt(total.order_square / static_cast<double>(count));
  }
  result.passed = total.mismatches == 0;
  if (result.passed) return result;
  errors.first_index = DenseIndex(expected, total.first);
  errors.expected = expected.values[static_cast<Size>(total.first)];
  errors.actual = Decode(tensor.dtype, given.bytes, given.At(expected, total.first));
  const bool classes = total.class_mismatches > 0;
  Fail(&result, classes ? "class_mismatch" : exact || IsInteger(judged) ? "exact" : "tolerance");
  return result;
}

std::optional<std::string> OverBudget(const BoundTensor& tensor, const Comparison& candidate,
                                      const BaselineError& baseline) {
  if (!IsFloat(tensor.dtype) || candidate.errors.compared < kBudgetElements) return std::nullopt;
  const double u = UnitRoundoff(tensor.dtype);
  const double least = SmallestSubnormal(tensor.dtype);
  // One sum's error is shared by the whole row in row-wise operators, so that an RMS over few rows
  // says little: over n independent ones its square varies by sqrt(2 / n) of itself; four times
  // that is allowed for.
  const auto rows = static_cast<double>(
      std::max<std::int64_t>(1, std::min(RowCount(tensor), candidate.errors.compared)));
  const double slack = std::sqrt(1 + 4 * std::sqrt(2 / rows));
  const double rms_limit = std::max({2 * baseline.rms, slack * u * candidate.errors.reference_rms,
                                     slack * candidate.order_rms, least});
  const double max_limit = std::max(
      {4 * baseline.max_error, 4 * u * candidate.max_reference, 4 * candidate.max_order, least});
  if (!(candidate.errors.rms <= rms_limit)) {
    return fmt::format("{}: RMS error {:.3g} is over the budget {:.3g} (baseline {:.3g})",
                       tensor.name, candidate.errors.rms, rms_limit, baseline.rms);
  }
  if (!(candidate.max_error <= max_limit)) {
    return fmt::format("{}: largest error {:.3g} is over the budget {:.3g} (baseline {:.3g})",
                       tensor.name, candidate.max_error, max_limit, baseline.max_error);
  }
  return std::nullopt;
}

std::int64_t CountSpread(const BoundTensor& tensor, const BoundTolerance& tolerance,
                         const ExpectedOutput& expected, std::span<const std::uint8_t> first,
                         std::span<const std::uint8_t> second) {
  const ElementTolerance bound(tolerance, tensor.dtype, expected);
  std::int64_t over = 0;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(expected.values.size()); ++i) {
    const std::int64_t at = DenseIndex(expected, i);
    const double a = Decode(tensor.dtype, first.data(), at);
    const double b = Decode(tensor.dtype, second.data(), at);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    over += !(std::fabs(a - b) <= bound(i) / 2);
  }
  return over;
}

std::vector<std::uint8_t> RoundExpected(const BoundTensor& tensor, const ExpectedOutput& expected) {
  std::vector<std::uint8_t> dense(static_cast<Size>(DenseBytes(tensor)), 0);
  if (!expected.bytes.empty()) {
    const std::int64_t row = StorageBytes(tensor.dtype, expected.row_elements);
    if (expected.rows.empty()) return expected.bytes;
    for (Size r = 0; r < expected.rows.size(); ++r) {
      std::memcpy(dense.data() + expected.rows[r] * row,
                  expected.bytes.data() + static_cast<std::int64_t>(r) * row,
                  static_cast<Size>(row));
    }
    return dense;
  }
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(expected.values.size()); ++i) {
    const std::int64_t at = DenseIndex(expected, i);
    const double value = expected.values[static_cast<Size>(i)];
    if (IsFloat(tensor.dtype)) {
      EncodeFloat(tensor.dtype, value, dense.data(), at);
    } else {
      EncodeInteger(tensor.dtype, static_cast<std::int64_t>(std::llround(value)), dense.data(), at);
    }
  }
  return dense;
}

}  // namespace fettle
