// SPDX-License-Identifier: Apache-2.0
#include "core/dtype.h"

#include <cmath>
#include <cstring>

namespace fettle {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<DType> AllDTypes() {
  std::vector<DType> all;
  for (int i = 0; i < kDTypeCount; ++i) all.push_back(static_cast<DType>(i));
  return all;
}

double DecodeByte(DType dtype, int bits) {
  const auto byte = static_cast<std::uint8_t>(bits);
  return DecodeFloat(dtype, &byte, 0);
}
int EncodeByte(DType dtype, double value) {
  std::uint8_t byte = 0;
  EncodeFloat(dtype, value, &byte, 0);
  return byte;
}

TEST(DType, NamesRoundTrip) {
  for (const DType dtype : AllDTypes()) EXPECT_EQ(ParseDType(DTypeName(dtype)), dtype);
  EXPECT_FALSE(ParseDType("float").has_value());
  EXPECT_FALSE(ParseDType("").has_value());
}

// Formula tables written out independently: sign, exponent field, mantissa field.
struct ByteFormat {
  DType dtype;
  int exponent_bits, mantissa_bits, bias;
  bool ieee, fnuz;
};
const ByteFormat kByteFormats[] = {{DType::kF8E4M3FN, 4, 3, 7, false, false},
                                   {DType::kF8E4M3FNUZ, 4, 3, 8, false, true},
                                   {DType::kF8E5M2, 5, 2, 15, true, false},
                                   {DType::kF8E5M2FNUZ, 5, 2, 16, false, true}};

double Expected(const ByteFormat& f, int bits) {
  const int mantissa = bits & ((1 << f.mantissa_bits) - 1);
  const int exponent = (bits >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1);
  const double sign = (bits & 0x80) != 0 ? -1 : 1;
  const int top = (1 << f.exponent_bits) - 1;
  if (f.fnuz && bits == 0x80) return std::nan("");
  if (f.ieee && exponent == top) return mantissa == 0 ? sign * kInf : std::nan("");
  if (!f.ieee && !f.fnuz && (bits & 0x7f) == 0x7f) return std::nan("");
  const double fraction = mantissa / std::pow(2.0, f.mantissa_bits);
  if (exponent == 0) return sign * fraction * std::pow(2.0, 1 - f.bias);
  return sign * (1 + fraction) * std::pow(2.0, exponent - f.bias);
}

TEST(DType, DecodesEveryByteOfTheEightBitFloats) {
  for (const auto& format : kByteFormats) {
    for (int bits = 0; bits < 256; ++bits) {
      const double expected = Expected(format, bits);
      const double actual = DecodeByte(format.dtype, bits);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(actual)) << DTypeName(format.dtype) << " " << bits;
      } else {
        EXPECT_EQ(actual, expected) << DTypeName(format.dtype) << " " << bits;
        EXPECT_EQ(std::signbit(actual), std::signbit(expected)) << bits;
        EXPECT_EQ(EncodeByte(format.dtype, actual), bits) << DTypeName(format.dtype);
      }
    }
  }
}

// Nearest by exhaustive search over the finite values, ties to the even pattern.
TEST(DType, EncodesTheEightBitFloatsToNearestEven) {
  for (const auto& format : kByteFormats) {
    std::vector<std::pair<double, int>> finite;
    for (int bits = 0; bits < 128; ++bits) {
      const double value = Expected(format, bits);
      if (std::isfinite(value)) finite.emplace_back(value, bits);
    }
    for (std::size_t i = 0; i + 1 < finite.size(); ++i) {
      const auto [low, low_bits] = finite[i];
      const auto [high, high_bits] = finite[i + 1];
      const double middle = (low + high) / 2;
      const int even = low_bits % 2 == 0 ? low_bits : high_bits;
      EXPECT_EQ(EncodeByte(format.dtype, middle), even) << DTypeName(format.dtype) << " " << middle;
      EXPECT_EQ(EncodeByte(format.dtype, std::nextafter(middle, 0)), low_bits);
      EXPECT_EQ(EncodeByte(format.dtype, std::nextafter(middle, kInf)), high_bits);
      if (even != 0) {
        EXPECT_EQ(EncodeByte(format.dtype, -middle), even | 0x80);
      }
    }
  }
}

TEST(DType, OverflowFollowsEachFormat) {
  EXPECT_EQ(EncodeByte(DType::kF8E4M3FN, 448), 0x7e);
  EXPECT_EQ(EncodeByte(DType::kF8E4M3FN, 463.9), 0x7e);
  EXPECT_EQ(EncodeByte(DType::kF8E4M3FN, 1e9), 0x7f);
  EXPECT_EQ(EncodeByte(DType::kF8E4M3FN, -kInf), 0xff);
  EXPECT_EQ(EncodeByte(DType::kF8E4M3FNUZ, 240), 0x7f);
  EXPECT_EQ(EncodeByte(DType::kF8E4M3FNUZ, kInf), 0x80);
  EXPECT_EQ(EncodeByte(DType::kF8E4M3FNUZ, -0.0), 0x00);
  EXPECT_EQ(EncodeByte(DType::kF8E5M2, 57344), 0x7b);
  EXPECT_EQ(EncodeByte(DType::kF8E5M2, 1e9), 0x7c);
  EXPECT_EQ(EncodeByte(DType::kF8E5M2, -1e9), 0xfc);
  EXPECT_TRUE(std::isnan(DecodeByte(DType::kF8E5M2, EncodeByte(DType::kF8E5M2, std::nan("")))));
}

TEST(DType, ScalesArePowersOfTwo) {
  for (int bits = 0; bits < 255; ++bits) {
    EXPECT_EQ(DecodeByte(DType::kF8E8M0, bits), std::ldexp(1.0, bits - 127));
    EXPECT_EQ(EncodeByte(DType::kF8E8M0, std::ldexp(1.0, bits - 127)), bits);
  }
  EXPECT_TRUE(std::isnan(DecodeByte(DType::kF8E8M0, 255)));
  EXPECT_EQ(EncodeByte(DType::kF8E8M0, 1.4), 127);
  EXPECT_EQ(EncodeByte(DType::kF8E8M0, 1.5), 128);  // Tie: 128 is even.
  EXPECT_EQ(EncodeByte(DType::kF8E8M0, 3.0), 128);
  EXPECT_EQ(EncodeByte(DType::kF8E8M0, -1.0), 255);
  EXPECT_EQ(EncodeByte(DType::kF8E8M0, 0), 0);
}

TEST(DType, FourBitPairsShareAByte) {
  const double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int low = 0; low < 16; ++low) {
    for (int high = 0; high < 16; ++high) {
      const auto byte = static_cast<std::uint8_t>(low | high << 4);
      const double first = (low & 8) != 0 ? -values[low & 7] : values[low & 7];
      const double second = (high & 8) != 0 ? -values[high & 7] : values[high & 7];
      EXPECT_EQ(DecodeFloat(DType::kF4E2M1X2, &byte, 0), first);
      EXPECT_EQ(DecodeFloat(DType::kF4E2M1X2, &byte, 1), second);
      std::uint8_t out = 0xff;
      EncodeFloat(DType::kF4E2M1X2, first, &out, 0);
      EncodeFloat(DType::kF4E2M1X2, second, &out, 1);
      EXPECT_EQ(out, byte);
    }
  }
  EXPECT_EQ(RoundTo(DType::kF4E2M1X2, 100), 6);
  EXPECT_EQ(RoundTo(DType::kF4E2M1X2, -kInf), -6);
  EXPECT_EQ(RoundTo(DType::kF4E2M1X2, 2.5), 2);
  EXPECT_EQ(RoundTo(DType::kF4E2M1X2, 3.5), 4);
  EXPECT_EQ(StorageBytes(DType::kF4E2M1X2, 5), 3);
}

TEST(DType, HalfAndBfloatRoundTripEveryPattern) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (int bits = 0; bits < 65536; ++bits) {
      const auto pattern = static_cast<std::uint16_t>(bits);
      std::uint8_t bytes[2];
      std::memcpy(bytes, &pattern, 2);
      const double value = DecodeFloat(dtype, bytes, 0);
      std::uint8_t back[2];
      EncodeFloat(dtype, value, back, 0);
      std::uint16_t again = 0;
      std::memcpy(&again, back, 2);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(DecodeFloat(dtype, back, 0)));
      } else {
        ASSERT_EQ(again, pattern) << DTypeName(dtype);
      }
    }
  }
}

#ifdef __FLT16_MANT_DIG__
TEST(DType, HalfRoundsAsTheCompilerDoes) {
  std::uint64_t state = 12345;
  for (int i = 0; i < 200000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double mantissa = 1 + static_cast<double>(state >> 12) * 0x1p-52;
    const double value = std::ldexp(mantissa, static_cast<int>((state >> 3) % 50) - 30);
    EXPECT_EQ(RoundTo(DType::kF16, value), static_cast<double>(static_cast<_Float16>(value)));
  }
}
#endif

TEST(DType, HalfAndBfloatRoundEveryMidpoint) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const std::uint16_t infinity = dtype == DType::kF16 ? 0x7C00 : 0x7F80;
    const auto value = [dtype](std::uint16_t bits) {
      std::uint8_t bytes[2];
      std::memcpy(bytes, &bits, 2);
      return DecodeFloat(dtype, bytes, 0);
    };
    for (std::uint16_t bits = 0; bits + 1 < infinity; ++bits) {
      const double low = value(bits), high = value(static_cast<std::uint16_t>(bits + 1));
      const double middle = low + (high - low) / 2;
      EXPECT_EQ(RoundTo(dtype, middle), bits % 2 == 0 ? low : high) << bits;
      EXPECT_EQ(RoundTo(dtype, std::nextafter(middle, 0)), low) << bits;
      EXPECT_EQ(RoundTo(dtype, -std::nextafter(middle, kInf)), -high) << bits;
    }
    EXPECT_EQ(RoundTo(dtype, -5e-324), 0);
    EXPECT_TRUE(std::signbit(RoundTo(dtype, -5e-324)));
    EXPECT_EQ(RoundTo(dtype, -1e300), -kInf);
    EXPECT_EQ(RoundTo(dtype, kInf), kInf);
  }
}

TEST(DType, BfloatTiesGoToEven) {
  EXPECT_EQ(RoundTo(DType::kBF16, 1 + 0x1p-8), 1.0);
  EXPECT_EQ(RoundTo(DType::kBF16, 1 + 3 * 0x1p-8), 1 + 0x1p-6);
  EXPECT_EQ(RoundTo(DType::kBF16, std::nextafter(1 + 0x1p-8, 2)), 1 + 0x1p-7);
  EXPECT_EQ(RoundTo(DType::kBF16, 3.4e38 * 1.01), kInf);
}

TEST(DType, LimitsAgreeWithTheCodec) {
  for (const DType dtype : AllDTypes()) {
    if (!IsFloat(dtype)) {
      EXPECT_EQ(UnitRoundoff(dtype), 0);
      continue;
    }
    EXPECT_EQ(RoundTo(dtype, MaxFinite(dtype)), MaxFinite(dtype)) << DTypeName(dtype);
    EXPECT_EQ(RoundTo(dtype, SmallestSubnormal(dtype)), SmallestSubnormal(dtype));
    if (dtype == DType::kF8E8M0 || dtype == DType::kF64) continue;
    const double u = UnitRoundoff(dtype);
    EXPECT_EQ(RoundTo(dtype, 1 + 2 * u), 1 + 2 * u) << DTypeName(dtype);
    EXPECT_EQ(RoundTo(dtype, 1 + u), 1.0) << DTypeName(dtype);
    EXPECT_EQ(RoundTo(dtype, SmallestSubnormal(dtype) / 2), 0.0) << DTypeName(dtype);
  }
  EXPECT_EQ(MaxFinite(DType::kF16), 65504);
  EXPECT_EQ(MaxFinite(DType::kF8E5M2FNUZ), 57344);
  EXPECT_TRUE(HasInfinity(DType::kF8E5M2));
  EXPECT_FALSE(HasInfinity(DType::kF8E4M3FN));
  EXPECT_FALSE(HasNaN(DType::kF4E2M1X2));
}

TEST(DType, IntegersKeepTheirValues) {
  for (const DType dtype : {DType::kI64, DType::kI32, DType::kI16, DType::kI8}) {
    for (const std::int64_t value : {-128, -1, 0, 1, 127}) {
      std::uint8_t bytes[16] = {};
      EncodeInteger(dtype, value, bytes, 1);
      EXPECT_EQ(DecodeInteger(dtype, bytes, 1), value);
    }
  }
  std::uint8_t byte = 0;
  EncodeInteger(DType::kBool, 7, &byte, 0);
  EXPECT_EQ(byte, 1);
}

}  // namespace
}  // namespace fettle
