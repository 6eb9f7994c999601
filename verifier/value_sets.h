// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/bound.h"
#include "device/runner_session.h"

namespace fettle {

// Whether a set is one of integers: it leaves floats as declared, and other sets leave integers.
bool IsIntegerSet(InputSet set);
// Entry `index` of `count` under such a set, counted from the least value of a range of `span`.
std::uint64_t IntegerOfSet(InputSet set, std::uint64_t span, std::uint64_t seed,
                           std::uint64_t index, std::uint64_t count);

// Element values of a tensor under a value fill (kZero, kConstant, kNormal, kUniform) and an input
// set (integrity rules: scales, heavy tails, structure, edge values). Entries can be asked for in
// any order. Sets change floating-point kNormal and kUniform fills, those of integers the kUniform
// fills of integers; and stay within the bounds of a kUniform fill except for the scales, edge,
// large and non-finite values.
class ValueSource {
 public:
  ValueSource(const BoundTensor& tensor, const Fill& fill, InputSet set, std::int64_t count,
              std::uint64_t seed);
  double Value(std::int64_t element) const;

 private:
  double Draw(std::int64_t element) const;  // By the fill.
  double ValueOfSet(std::int64_t element) const;
  double Structured(std::int64_t element) const;  // By the set.
  double Edge(std::int64_t element) const;

  DType dtype_;
  Fill::Kind kind_;
  double a_, b_;
  InputSet set_;
  std::int64_t count_, row_, hot_;
  std::uint64_t seed_;
  bool integer_, nonfinite_;
};

}  // namespace fettle
