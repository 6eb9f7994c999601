// SPDX-License-Identifier: Apache-2.0
#include "verifier/value_sets.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "verifier/random.h"

namespace fettle {
namespace {

std::uint64_t U(std::int64_t value) { return static_cast<std::uint64_t>(value); }

// Smallest normal value of the dtype, from its smallest subnormal and precision.
double SmallestNormal(DType dtype) {
  return SmallestSubnormal(dtype) / (2 * std::max(UnitRoundoff(dtype), 0x1p-53));
}

}  // namespace

bool IsIntegerSet(InputSet set) {
  return set >= InputSet::kExtremeIntegers && set <= InputSet::kSortedIntegers;
}

std::uint64_t IntegerOfSet(InputSet set, std::uint64_t span, std::uint64_t seed,
                           std::uint64_t index, std::uint64_t count) {
  constexpr std::uint64_t kFew = 3;
  switch (set) {
    case InputSet::kExtremeIntegers:
      return RandomBelow(2, seed + 9, index) == 0 ? 0 : span - 1;
    case InputSet::kEqualIntegers:
      return RandomBelow(span, seed + 9, 0);
    case InputSet::kFewIntegers:
      return RandomBelow(span, seed + 9, RandomBelow(kFew, seed, index));
    default:  // kSortedIntegers
      return static_cast<std::uint64_t>(static_cast<double>(span) * static_cast<double>(index) /
                                        static_cast<double>(count));
  }
}

ValueSource::ValueSource(const BoundTensor& tensor, const Fill& fill, InputSet set,
                         std::int64_t count, std::uint64_t seed)
    : dtype_(tensor.dtype),
      kind_(fill.kind),
      a_(fill.a),
      b_(fill.b),
      set_(set),
      count_(count),
      seed_(seed),
      integer_(IsInteger(tensor.dtype)),
      nonfinite_(tensor.nonfinite) {
  const bool drawn = kind_ == Fill::Kind::kNormal || kind_ == Fill::Kind::kUniform;
  if (!drawn || dtype_ == DType::kF8E8M0 || IsIntegerSet(set_) != integer_) {
    set_ = InputSet::kDeclared;
  }
  row_ = tensor.shape.empty() ? 1 : std::max<std::int64_t>(1, tensor.shape.back());
  hot_ = count_ > 0 ? static_cast<std::int64_t>(RandomBelow(U(count_), seed_ + 1, 0)) : 0;
}

double ValueSource::Draw(std::int64_t element) const {
  switch (kind_) {
    case Fill::Kind::kConstant:
      return a_;
    case Fill::Kind::kNormal:
      return a_ + b_ * RandomNormal(seed_, U(element));
    case Fill::Kind::kUniform:
      if (integer_) {  // Both ends included.
        const auto span =
            static_cast<std::uint64_t>(std::max(0.0, std::floor(b_) - std::ceil(a_))) + 1;
        const std::uint64_t drawn =
            set_ == InputSet::kDeclared
                ? RandomBelow(span, seed_, U(element))
                : IntegerOfSet(set_, span, seed_, U(element), U(std::max<std::int64_t>(count_, 1)));
        return std::ceil(a_) + static_cast<double>(drawn);
      }
      return a_ + (b_ - a_) * RandomUnit(seed_, U(element));
    default:
      return 0;
  }
}

double ValueSource::Value(std::int64_t element) const {
  const double value = ValueOfSet(element);
  // A range without negative values says that the operator takes none (a variance, a count); one
  // without zero, that it takes no zero either.
  if (kind_ != Fill::Kind::kUniform || a_ < 0 || integer_ || set_ == InputSet::kDeclared)
    return value;
  return value == 0 && a_ > 0 ? a_ : std::fabs(value);
}

double ValueSource::ValueOfSet(std::int64_t element) const {
  if (integer_) return Draw(element);
  switch (set_) {
    case InputSet::kDeclared:
      return Draw(element);
    case InputSet::kExactIntegers:
      return static_cast<double>(RandomBelow(5, seed_, U(element))) - 2;
    case InputSet::kScaleTiny:
      return 1e-4 * Draw(element);
    case InputSet::kScaleSmall:
      return 1e-2 * Draw(element);
    case InputSet::kScaleLarge:
      return 8 * Draw(element);
    case InputSet::kScaleHuge:
      return 1e3 * Draw(element);
    case InputSet::kRowScales: {
      const double power = 16 * RandomUnit(seed_ + 1, U(element / row_)) - 8;
      return Draw(element) * std::ldexp(1.0, static_cast<int>(std::floor(power)));
    }
    case InputSet::kHeavyTail: {
      const bool spike = element == hot_ || RandomBelow(100, seed_ + 2, U(element)) == 0;
      return Draw(element) * (spike ? 100 : 1);
    }
    case InputSet::kOffset: {
      // A variance as the difference of two means loses all its digits here. Within the bounds of a
      // uniform fill it is the last fiftieth of the range.
      if (kind_ == Fill::Kind::kUniform) {
        return b_ - (b_ - a_) / 50 * RandomUnit(seed_, U(element));
      }
      const double up = RandomBelow(2, seed_ + 7, U(element / row_)) == 0 ? 64 : -64;
      return a_ + up * std::fabs(b_) + 0.1 * (Draw(element) - a_);
    }
    case InputSet::kEdgeValues:
      return Edge(element);
    case InputSet::kLargeValues: {
      if (RandomBelow(8, seed_ + 3, U(element)) != 0) return Draw(element);
      const double sign = RandomBelow(2, seed_ + 4, U(element)) == 0 ? 1 : -1;
      return sign * std::pow(MaxFinite(dtype_), 0.75);
    }
    case InputSet::kNonFinite: {
      if (!nonfinite_) return Draw(element);
      // At least one of each, however few elements there are.
      if (element == hot_) return std::numeric_limits<double>::quiet_NaN();
      if (HasInfinity(dtype_) && element == (hot_ + 1) % count_) {
        return std::numeric_limits<double>::infinity();
      }
      if (RandomBelow(64, seed_ + 3, U(element)) != 0) {
        // Zeros, since nothing times infinity is NaN: a kernel that skips zeros loses that.
        return RandomBelow(4, seed_ + 8, U(element)) == 0 ? 0 : Draw(element);
      }
      const double choices[3] = {std::numeric_limits<double>::quiet_NaN(),
                                 std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity()};
      return choices[HasInfinity(dtype_) ? RandomBelow(3, seed_ + 4, U(element)) : 0];
    }
    default:
      return Structured(element);
  }
}

double ValueSource::Structured(std::int64_t element) const {
  const std::int64_t column = element % row_;
  const double low = kind_ == Fill::Kind::kUniform ? a_ : a_ - 3 * std::fabs(b_);
  const double high = kind_ == Fill::Kind::kUniform ? b_ : a_ + 3 * std::fabs(b_);
  const double along = row_ > 1 ? static_cast<double>(column) / static_cast<double>(row_ - 1) : 0.5;
  switch (set_) {
    case InputSet::kAllEqual:
      return Draw(0);
    case InputSet::kAllZero:
      return 0;
    case InputSet::kAllNegative:
      return -std::fabs(Draw(element));
    case InputSet::kSorted:
      return low + (high - low) * along;
    case InputSet::kReversed:
      return high - (high - low) * along;
    case InputSet::kTies:
      return Draw(element % 3);
    case InputSet::kOneHot: {
      const auto hot =
          static_cast<std::int64_t>(RandomBelow(U(row_), seed_ + 1, U(element / row_)));
      return column == hot ? high : 0;
    }
    case InputSet::kCheckerboard:
      return (column + element / row_) % 2 == 0 ? high : low;
    default: {  // kLowRank: an outer product.
      const double across = RandomNormal(seed_ + 5, U(element / row_));
      return a_ + across * RandomNormal(seed_ + 6, U(column)) * (high - low) / 6;
    }
  }
}

double ValueSource::Edge(std::int64_t element) const {
  if (RandomBelow(8, seed_ + 3, U(element)) != 0) return Draw(element);
  const double sign = RandomBelow(2, seed_ + 4, U(element)) == 0 ? 1 : -1;
  switch (RandomBelow(5, seed_ + 5, U(element))) {
    case 0:
      return sign * 0.0;
    case 1:
      return sign * SmallestNormal(dtype_);
    case 2:
      return sign * SmallestSubnormal(dtype_);
    case 3:
      return sign * (1 + 2 * UnitRoundoff(dtype_));
    default:
      return sign * std::sqrt(MaxFinite(dtype_)) / 4;
  }
}

}  // namespace fettle
