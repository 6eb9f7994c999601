// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fettle {

// Element types of DESIGN.md 6. Two f4e2m1 values share one byte (the low nibble first).
enum class DType {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3FN,
  kF8E4M3FNUZ,
  kF8E5M2,
  kF8E5M2FNUZ,
  kF8E8M0,
  kF4E2M1X2,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kBool,
};
inline constexpr int kDTypeCount = 16;

// The name in task files: "f64", "bf16", "f8e4m3fn", ...
std::string_view DTypeName(DType dtype);
std::optional<DType> ParseDType(std::string_view name);

// Bytes that `count` elements take, densely packed. `count` >= 0.
std::int64_t StorageBytes(DType dtype, std::int64_t count);
// Bytes of one element; 1 for kF4E2M1X2, whose element of storage is a pair.
std::int64_t SizeOf(DType dtype);

bool IsFloat(DType dtype);
bool IsInteger(DType dtype);  // kBool included.

// Unit roundoff (half the spacing at 1.0); 0 for integers.
double UnitRoundoff(DType dtype);
// Smallest positive subnormal; 0 for integers.
double SmallestSubnormal(DType dtype);
double MaxFinite(DType dtype);
bool HasInfinity(DType dtype);
bool HasNaN(DType dtype);

// Reads element `index` of densely packed `bytes` as a double (exact for every dtype but kI64).
double DecodeFloat(DType dtype, const std::uint8_t* bytes, std::int64_t index);
std::int64_t DecodeInteger(DType dtype, const std::uint8_t* bytes, std::int64_t index);
// Writes with round-to-nearest-even; out of range becomes infinity, or NaN or the largest value
// where the dtype has no infinity (OCP rules: E4M3FN saturates to NaN, FNUZ to NaN, E2M1 to max).
void EncodeFloat(DType dtype, double value, std::uint8_t* bytes, std::int64_t index);
void EncodeInteger(DType dtype, std::int64_t value, std::uint8_t* bytes, std::int64_t index);

// The value after one trip through the dtype.
double RoundTo(DType dtype, double value);

}  // namespace fettle
