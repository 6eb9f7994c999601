// SPDX-License-Identifier: Apache-2.0
#pragma once

// The arithmetic of expressions on int64, checked. The emitted C++ carries the same rules
// (expr_cpp.cc); a test holds the two together.

#include <cstdint>
#include <limits>

namespace fettle {

// `problem` is null where the value holds.
struct ExprResult {
  std::int64_t value = 0;
  const char* problem = nullptr;
};

inline constexpr std::int64_t kExprMin = std::numeric_limits<std::int64_t>::min();

inline ExprResult CheckedAdd(std::int64_t a, std::int64_t b) {
  ExprResult out;
  if (__builtin_add_overflow(a, b, &out.value)) return {0, "addition overflows 64 bits"};
  return out;
}
inline ExprResult CheckedSubtract(std::int64_t a, std::int64_t b) {
  ExprResult out;
  if (__builtin_sub_overflow(a, b, &out.value)) return {0, "subtraction overflows 64 bits"};
  return out;
}
inline ExprResult CheckedMultiply(std::int64_t a, std::int64_t b) {
  ExprResult out;
  if (__builtin_mul_overflow(a, b, &out.value)) return {0, "multiplication overflows 64 bits"};
  return out;
}
inline ExprResult CheckedNegate(std::int64_t a) {
  if (a == kExprMin) return {0, "negation overflows 64 bits"};
  return {-a, nullptr};
}
inline ExprResult CheckedDivide(std::int64_t a, std::int64_t b) {
  if (b == 0) return {0, "division by zero"};
  if (a == kExprMin && b == -1) return {0, "division overflows 64 bits"};
  return {a / b, nullptr};
}
inline ExprResult CheckedRemainder(std::int64_t a, std::int64_t b) {
  if (b == 0) return {0, "remainder by zero"};
  if (b == -1) return {0, nullptr};
  return {a % b, nullptr};
}
// Rounds up; the divisor must be positive.
inline ExprResult CheckedCeilDiv(std::int64_t a, std::int64_t b) {
  if (b == 0) return {0, "ceil_div by zero"};
  if (b < 0) return {0, "ceil_div by a negative number"};
  return {a / b + (a % b > 0 ? 1 : 0), nullptr};
}
inline ExprResult CheckedPower(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return {0, "negative exponent"};
  if (base == 0 || base == 1) return {exponent == 0 ? 1 : base, nullptr};
  if (base == -1) return {exponent % 2 == 0 ? 1 : -1, nullptr};
  std::int64_t value = 1;
  for (; exponent > 0; --exponent) {  // At most 63 rounds before it overflows.
    if (__builtin_mul_overflow(value, base, &value)) return {0, "power overflows 64 bits"};
  }
  return {value, nullptr};
}
// Bits needed to write `a`; 0 for 0.
inline ExprResult CheckedBitWidth(std::int64_t a) {
  if (a < 0) return {0, "bit_width of a negative number"};
  std::int64_t width = 0;
  for (; a > 0; a >>= 1) ++width;
  return {width, nullptr};
}

}  // namespace fettle
