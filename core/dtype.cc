// SPDX-License-Identifier: Apache-2.0
#include "core/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/draw.h"
#include "core/status_macros.h"

namespace fettle {
namespace {

// What a bit pattern above the largest finite value means.
enum class Special {
  kIeee,     // Infinities and NaN.
  kNanOnly,  // One NaN magnitude (all ones), no infinity.
  kFnuz,     // The pattern of -0 is the only NaN; no infinity.
  kNone,     // Every pattern is finite.
};

// A small binary float: sign, exponent, mantissa.
struct FloatFormat {
  int exponent_bits = 0;
  int mantissa_bits = 0;
  int bias = 0;
  Special special = Special::kIeee;
};

FloatFormat FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {5, 10, 15, Special::kIeee};
    case DType::kBF16:
      return {8, 7, 127, Special::kIeee};
    case DType::kF8E4M3FN:
      return {4, 3, 7, Special::kNanOnly};
    case DType::kF8E4M3FNUZ:
      return {4, 3, 8, Special::kFnuz};
    case DType::kF8E5M2:
      return {5, 2, 15, Special::kIeee};
    case DType::kF8E5M2FNUZ:
      return {5, 2, 16, Special::kFnuz};
    case DType::kF4E2M1X2:
      return {2, 1, 1, Special::kNone};
    default:
      break;
  }
  FETTLE_CHECK(false && "not a small float");
  return {};
}

std::uint32_t SignBit(const FloatFormat& format) {
  return 1u << (format.exponent_bits + format.mantissa_bits);
}

// The largest finite magnitude as bits.
std::uint32_t MaxFiniteBits(const FloatFormat& format) {
  const std::uint32_t all = SignBit(format) - 1;
  switch (format.special) {
    case Special::kIeee:
      return all - (1u << format.mantissa_bits);
    case Special::kNanOnly:
      return all - 1;
    case Special::kFnuz:
    case Special::kNone:
      return all;
  }
  return all;
}

double DecodeSmall(const FloatFormat& format, std::uint32_t bits) {
  const std::uint32_t sign = bits & SignBit(format);
  const std::uint32_t magnitude = bits & (SignBit(format) - 1);
  if (format.special == Special::kFnuz && sign != 0 && magnitude == 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (magnitude > MaxFiniteBits(format)) {
    const bool infinite =
        format.special == Special::kIeee && magnitude == MaxFiniteBits(format) + 1;
    if (!infinite) return std::numeric_limits<double>::quiet_NaN();
    return sign != 0 ? -std::numeric_limits<double>::infinity()
                     : std::numeric_limits<double>::infinity();
  }
  const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const std::uint32_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
  const int scale = 1 - format.bias - format.mantissa_bits;
  const double value =
      exponent == 0 ? std::ldexp(static_cast<double>(mantissa), scale)
                    : std::ldexp(static_cast<double>(mantissa + (1u << format.mantissa_bits)),
                                 scale + exponent - 1);
  return sign != 0 ? -value : value;
}

std::uint32_t NanBits(const FloatFormat& format, std::uint32_t sign) {
  switch (format.special) {
    case Special::kIeee:
      return sign | (MaxFiniteBits(format) + 1) | (1u << (format.mantissa_bits - 1));
    case Special::kNanOnly:
      return sign | (SignBit(format) - 1);
    case Special::kFnuz:
      return SignBit(format);
    case Special::kNone:
      return MaxFiniteBits(format);  // No NaN: the largest value.
  }
  return 0;
}

std::uint32_t OverflowBits(const FloatFormat& format, std::uint32_t sign) {
  switch (format.special) {
    case Special::kIeee:
      return sign | (MaxFiniteBits(format) + 1);
    case Special::kNanOnly:
    case Special::kFnuz:
      return NanBits(format, sign);
    case Special::kNone:
      return sign | MaxFiniteBits(format);
  }
  return 0;
}

// Rounds to the nearest, ties to even. Magnitudes are counted in units of the spacing at that
// exponent, and nearbyint rounds ties to even in the default rounding mode.
std::uint32_t EncodeSmall(const FloatFormat& format, double value) {
  const std::uint32_t sign = std::signbit(value) ? SignBit(format) : 0;
  if (std::isnan(value)) return NanBits(format, sign);
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return OverflowBits(format, sign);
  const int smallest = 1 - format.bias;  // Exponent of the smallest normal.
  const int exponent = magnitude > 0 ? std::max(std::ilogb(magnitude), smallest) : smallest;
  if (exponent > 2 * format.bias + 2) return OverflowBits(format, sign);
  // Units of the spacing at `exponent`; a carry into the next exponent falls out by itself, since
  // the bit patterns of positive floats are ordered.
  const double units = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  const auto whole = static_cast<std::uint64_t>(units);
  const auto biased = static_cast<std::uint64_t>(exponent - smallest);
  const std::uint64_t bits = (biased << format.mantissa_bits) + whole;
  if (bits > MaxFiniteBits(format)) return OverflowBits(format, sign);
  if (bits == 0 && format.special == Special::kFnuz) return 0;  // No negative zero.
  return sign | static_cast<std::uint32_t>(bits);
}

// E8M0: a power of two, 2^(bits - 127); 0xff is NaN. No sign, no zero.
double DecodeE8M0(std::uint8_t bits) {
  if (bits == 0xff) return std::numeric_limits<double>::quiet_NaN();
  return std::ldexp(1.0, bits - 127);
}

std::uint8_t EncodeE8M0(double value) {
  if (std::isnan(value) || value < 0 || std::isinf(value)) return 0xff;
  if (value < std::ldexp(1.0, -127)) return 0;  // Saturates at the smallest.
  int exponent = std::ilogb(value);
  const double fraction = std::ldexp(value, -exponent);  // [1, 2)
  // Nearest of 2^e and 2^(e+1); the tie 1.5 goes to the even bit pattern.
  if (fraction > 1.5 || (fraction == 1.5 && ((exponent + 127) & 1) != 0)) ++exponent;
  return exponent > 127 ? std::uint8_t{0xff} : static_cast<std::uint8_t>(exponent + 127);
}

template <typename T>
T Load(const std::uint8_t* bytes, std::int64_t index) {
  T value;
  std::memcpy(&value, bytes + index * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
void Store(T value, std::uint8_t* bytes, std::int64_t index) {
  std::memcpy(bytes + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

// A float is exact in f32 for f16 and bf16; the shortcut matters, since large arrays pass here.
double DecodeBF16(std::uint16_t bits) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
}

constexpr std::array<std::string_view, kDTypeCount> kNames = {
    "f64",    "f32",      "f16", "bf16", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz",
    "f8e8m0", "f4e2m1x2", "i64", "i32",  "i16",      "i8",         "u8",     "bool"};

}  // namespace

std::string_view DTypeName(DType dtype) { return kNames[static_cast<std::size_t>(dtype)]; }

std::optional<DType> ParseDType(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
      return 2;
    default:
      return 1;
  }
}

std::int64_t StorageBytes(DType dtype, std::int64_t count) {
  return dtype == DType::kF4E2M1X2 ? count / 2 + count % 2 : count * SizeOf(dtype);
}

bool IsFloat(DType dtype) { return static_cast<int>(dtype) < static_cast<int>(DType::kI64); }
bool IsInteger(DType dtype) { return !IsFloat(dtype); }

double UnitRoundoff(DType dtype) {
  if (!IsFloat(dtype)) return 0;
  switch (dtype) {
    case DType::kF64:
      return std::ldexp(1.0, -53);
    case DType::kF32:
      return std::ldexp(1.0, -24);
    case DType::kF8E8M0:
      return 0.5;
    default:
      return std::ldexp(1.0, -(FormatOf(dtype).mantissa_bits + 1));
  }
}

double SmallestSubnormal(DType dtype) {
  if (!IsFloat(dtype)) return 0;
  switch (dtype) {
    case DType::kF64:
      return std::numeric_limits<double>::denorm_min();
    case DType::kF32:
      return std::numeric_limits<float>::denorm_min();
    case DType::kF8E8M0:
      return std::ldexp(1.0, -127);
    default:
      return DecodeSmall(FormatOf(dtype), 1);
  }
}

double MaxFinite(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return std::numeric_limits<double>::max();
    case DType::kF32:
      return std::numeric_limits<float>::max();
    case DType::kF8E8M0:
      return std::ldexp(1.0, 127);
    case DType::kI64:
      return 9223372036854775807.0;
    case DType::kI32:
      return 2147483647;
    case DType::kI16:
      return 32767;
    case DType::kI8:
      return 127;
    case DType::kU8:
      return 255;
    case DType::kBool:
      return 1;
    default:
      return DecodeSmall(FormatOf(dtype), MaxFiniteBits(FormatOf(dtype)));
  }
}

bool HasInfinity(DType dtype) {
  if (dtype == DType::kF64 || dtype == DType::kF32) return true;
  if (!IsFloat(dtype) || dtype == DType::kF8E8M0) return false;
  return FormatOf(dtype).special == Special::kIeee;
}

bool HasNaN(DType dtype) { return IsFloat(dtype) && dtype != DType::kF4E2M1X2; }

double DecodeFloat(DType dtype, const std::uint8_t* bytes, std::int64_t index) {
  switch (dtype) {
    case DType::kF64:
      return Load<double>(bytes, index);
    case DType::kF32:
      return static_cast<double>(Load<float>(bytes, index));
    case DType::kBF16:
      return DecodeBF16(Load<std::uint16_t>(bytes, index));
    case DType::kF16:
      return DecodeSmall(FormatOf(dtype), Load<std::uint16_t>(bytes, index));
    case DType::kF8E8M0:
      return DecodeE8M0(bytes[index]);
    case DType::kF4E2M1X2: {
      const std::uint32_t pair = bytes[index / 2];
      return DecodeSmall(FormatOf(dtype), (index & 1) != 0 ? pair >> 4 : pair & 15u);
    }
    default:
      break;
  }
  if (IsInteger(dtype)) return static_cast<double>(DecodeInteger(dtype, bytes, index));
  return DecodeSmall(FormatOf(dtype), bytes[index]);
}

std::int64_t DecodeInteger(DType dtype, const std::uint8_t* bytes, std::int64_t index) {
  switch (dtype) {
    case DType::kI64:
      return Load<std::int64_t>(bytes, index);
    case DType::kI32:
      return Load<std::int32_t>(bytes, index);
    case DType::kI16:
      return Load<std::int16_t>(bytes, index);
    case DType::kI8:
      return Load<std::int8_t>(bytes, index);
    case DType::kU8:
    case DType::kBool:
      return bytes[index];
    default:
      break;
  }
  FETTLE_CHECK(false && "DecodeInteger of a floating dtype");
  return 0;
}

void EncodeFloat(DType dtype, double value, std::uint8_t* bytes, std::int64_t index) {
  switch (dtype) {
    case DType::kF64:
      return Store(value, bytes, index);
    case DType::kF32:
      return Store(static_cast<float>(value), bytes, index);
    case DType::kF16:
    case DType::kBF16: {
      const bool half = dtype == DType::kF16;
      const std::uint32_t bits = std::isnan(value)
                                     ? EncodeSmall(FormatOf(dtype), value)
                                     : draw::RoundSmall(value, half ? 10 : 7, half ? 15 : 127);
      return Store(static_cast<std::uint16_t>(bits), bytes, index);
    }
    case DType::kF8E8M0:
      bytes[index] = EncodeE8M0(value);
      return;
    case DType::kF4E2M1X2: {
      const std::uint32_t bits = EncodeSmall(FormatOf(dtype), value);
      std::uint8_t& pair = bytes[index / 2];
      pair = static_cast<std::uint8_t>((index & 1) != 0 ? (pair & 0x0fu) | (bits << 4)
                                                        : (pair & 0xf0u) | bits);
      return;
    }
    default:
      break;
  }
  FETTLE_CHECK(IsFloat(dtype));
  bytes[index] = static_cast<std::uint8_t>(EncodeSmall(FormatOf(dtype), value));
}

void EncodeInteger(DType dtype, std::int64_t value, std::uint8_t* bytes, std::int64_t index) {
  switch (dtype) {
    case DType::kI64:
      return Store(value, bytes, index);
    case DType::kI32:
      return Store(static_cast<std::int32_t>(value), bytes, index);
    case DType::kI16:
      return Store(static_cast<std::int16_t>(value), bytes, index);
    case DType::kI8:
      return Store(static_cast<std::int8_t>(value), bytes, index);
    case DType::kU8:
      bytes[index] = static_cast<std::uint8_t>(value);
      return;
    case DType::kBool:
      bytes[index] = value != 0;
      return;
    default:
      break;
  }
  FETTLE_CHECK(false && "EncodeInteger of a floating dtype");
}

double RoundTo(DType dtype, double value) {
  FETTLE_CHECK(IsFloat(dtype));
  std::array<std::uint8_t, 8> bytes{};
  EncodeFloat(dtype, value, bytes.data(), 0);
  return DecodeFloat(dtype, bytes.data(), 0);
}

}  // namespace fettle
