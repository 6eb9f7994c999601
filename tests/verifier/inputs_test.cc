// SPDX-License-Identifier: Apache-2.0
#include "verifier/inputs.h"

#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include "core/digest.h"
#include "tests/verifier/case_fixtures.h"
#include "verifier/npy.h"
#include "verifier/random.h"
#include "verifier/value_sets.h"

namespace fettle {
namespace {

std::vector<std::uint8_t> Make(const BoundTensor& tensor, std::uint64_t seed,
                               InputSet set = InputSet::kDeclared) {
  auto bytes = MakeInput(tensor, seed, set, {});
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return bytes.value_or(std::vector<std::uint8_t>());
}

std::vector<std::int64_t> Indices(Fill fill, std::int64_t count, std::uint64_t seed = 1) {
  BoundTensor tensor = MakeTensor("i", Role::kIndex, DType::kI64, {count});
  tensor.fill = std::move(fill);
  const auto bytes = Make(tensor, seed);
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(DecodeInteger(DType::kI64, bytes.data(), i));
  return values;
}

Fill IndexFill(Fill::Kind kind, std::int64_t lo, std::int64_t hi, double a = 0) {
  Fill fill;
  fill.kind = kind;
  fill.lo = lo;
  fill.hi = hi;
  fill.a = a;
  return fill;
}

std::string Npy(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize((header.size() + 10 + 64) / 64 * 64 - 10, ' ');
  std::string text = "\x93NUMPY";
  text += '\x01';
  text += '\0';
  text += static_cast<char>(header.size() & 0xFF);
  text += static_cast<char>(header.size() >> 8);
  return text + header + data;
}

// The bytes are part of what a seed means: evidence is repeated from it on other machines.
TEST(InputsTest, BytesOfASeedNeverChange) {
  BoundTensor tensor = MakeTensor("x", Role::kIn, DType::kF32, {1000});
  const auto bytes = Make(tensor, 42);
  const std::string normal = Sha256Hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  EXPECT_EQ(normal, "6dcf2961f93924d0d543ae55fdd3833f899496a49d4616b1ee12761c18e6679d");
  const auto zipf = Indices(IndexFill(Fill::Kind::kIndexZipf, 0, 1000000, 1.15), 1000, 42);
  std::string text;
  for (const std::int64_t value : zipf) text += fmt::format("{},", value);
  EXPECT_EQ(Sha256Hex(text), "49fe39d1c9e860b996dd9d97a2c1972a9685b790437d8ddae8a591b0bc78d378");
}

// A variance is never negative, whatever else a set does to it.
TEST(InputsTest, SetsKeepToRangesWithoutNegativeValues) {
  BoundTensor tensor = MakeTensor("x", Role::kIn, DType::kF32, {40, 50});
  tensor.nonfinite = true;
  tensor.fill.kind = Fill::Kind::kUniform;
  tensor.fill.b = 1;
  for (const double low : {0.0, 0.25}) {
    tensor.fill.a = low;
    for (int set = 0; set <= static_cast<int>(InputSet::kNonFinite); ++set) {
      const auto bytes = Make(tensor, 3, static_cast<InputSet>(set));
      for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        const double value = DecodeFloat(DType::kF32, bytes.data(), i);
        ASSERT_FALSE(value < 0) << InputSetName(static_cast<InputSet>(set));
        ASSERT_FALSE(low > 0 && value == 0) << InputSetName(static_cast<InputSet>(set));
      }
    }
  }
  tensor.fill.a = -1;
  const auto bytes = Make(tensor, 3, InputSet::kAllNegative);
  EXPECT_LT(DecodeFloat(DType::kF32, bytes.data(), 0), 0);
}

TEST(InputsTest, NormalHasItsMoments) {
  double sum = 0, square = 0, fourth = 0;
  constexpr int kCount = 200000;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double x = RandomNormal(7, i);
    sum += x;
    square += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(square / kCount, 1, 0.02);
  EXPECT_NEAR(fourth / kCount, 3, 0.15);
}

TEST(InputsTest, PortableFunctionsAreCloseToTheLibrarys) {
  for (double x = 1e-300; x < 1e300; x *= 37.7)
    EXPECT_NEAR(PortableLog(x), std::log(x), 1e-13 * std::fabs(std::log(x)) + 1e-15);
  for (double x = -300; x < 300; x += 0.37) EXPECT_NEAR(PortableExp(x) / std::exp(x), 1, 1e-13);
}

// Batches are what large inputs are made of; evidence was taken with single numbers.
TEST(InputsTest, BatchesHoldTheSameNumbers) {
  for (const std::uint64_t seed : {1ull, 0xFFFFFFFFFFFFFFFFull, 0x123456789ABCDEFull}) {
    std::vector<double> normals(70'001), units(normals.size());
    const std::uint64_t first = 12'345;
    RandomNormals(seed, first, normals);
    RandomUnits(seed, first, units);
    for (std::size_t i = 0; i < normals.size(); ++i) {
      ASSERT_EQ(normals[i], RandomNormal(seed, first + i)) << i;
      ASSERT_EQ(units[i], RandomUnit(seed, first + i)) << i;
    }
  }
}

TEST(InputsTest, DrawnFillsAreTheInputs) {
  Fill uniform{.kind = Fill::Kind::kUniform, .a = -3, .b = 5};
  Fill normal{.kind = Fill::Kind::kNormal, .a = 1, .b = 0.5};
  Fill constant{.kind = Fill::Kind::kConstant, .a = 2};
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3FN,
                            DType::kF4E2M1X2, DType::kI64, DType::kI32, DType::kU8, DType::kBool}) {
    for (const Fill& fill :
         {uniform, normal, constant, Fill{}, IndexFill(Fill::Kind::kIndexUniform, 5, 90)}) {
      if (IsFloat(dtype) == (fill.kind == Fill::Kind::kIndexUniform)) continue;
      if (IsInteger(dtype) && fill.kind == Fill::Kind::kNormal) continue;
      BoundTensor tensor = MakeTensor("x", Role::kIn, dtype, {3, 333});
      tensor.fill = fill;
      const auto drawn = DrawnFillOf(tensor, 7, InputSet::kDeclared);
      ASSERT_TRUE(drawn) << DTypeName(dtype);
      std::vector<std::uint8_t> bytes(static_cast<std::size_t>(StorageBytes(dtype, 999)));
      WriteDrawn(*drawn, 0, 999, bytes.data());
      EXPECT_EQ(bytes, Make(tensor, 7)) << DTypeName(dtype) << static_cast<int>(fill.kind);
      // One by one, as a set that changes nothing of it would.
      const ValueSource source(tensor, fill, InputSet::kDeclared, 999,
                               DeriveSeed(7, tensor.name, 0));
      for (std::int64_t i = 0; i < 999 && IsFloat(dtype); ++i) {
        std::uint8_t one[8] = {};
        EncodeFloat(dtype, source.Value(i), one, 0);
        ASSERT_EQ(DecodeFloat(dtype, one, 0), DecodeFloat(dtype, bytes.data(), i)) << i;
      }
    }
  }
  BoundTensor tensor = MakeTensor("x", Role::kIn, DType::kF32, {10});
  tensor.fill = normal;
  EXPECT_FALSE(DrawnFillOf(tensor, 7, InputSet::kHeavyTail));
  tensor.fill.rows.emplace_back(3, constant);
  EXPECT_FALSE(DrawnFillOf(tensor, 7, InputSet::kDeclared));
}

TEST(InputsTest, SeedsAndNamesGiveDifferentBytes) {
  BoundTensor a = MakeTensor("a", Role::kIn, DType::kF32, {100}), b = a;
  b.name = "b";
  EXPECT_NE(Make(a, 1), Make(a, 2));
  EXPECT_NE(Make(a, 1), Make(b, 1));
  EXPECT_EQ(Make(a, 1), Make(a, 1));
  b = a;
  b.member = 1;
  EXPECT_NE(Make(a, 1), Make(b, 1));
}

TEST(InputsTest, IndexFillsKeepTheirPromises) {
  for (const std::int64_t value : Indices(IndexFill(Fill::Kind::kIndexUniform, -2, 5), 1000)) {
    EXPECT_GE(value, -2);
    EXPECT_LT(value, 5);
  }
  const auto permutation = Indices(IndexFill(Fill::Kind::kIndexPermutation, 10, 1010), 1000);
  EXPECT_EQ(std::set<std::int64_t>(permutation.begin(), permutation.end()).size(), 1000u);
  const auto sorted = Indices(IndexFill(Fill::Kind::kIndexSorted, 0, 50), 500);
  EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end()));
  std::map<std::int64_t, int> counts;
  for (const std::int64_t value :
       Indices(IndexFill(Fill::Kind::kIndexRepeated, 0, 1 << 30, 8), 800))
    ++counts[value];
  EXPECT_EQ(counts.size(), 100u);
  EXPECT_EQ(counts.begin()->second, 8);
  counts.clear();
  for (const std::int64_t value : Indices(IndexFill(Fill::Kind::kIndexZipf, 0, 10000, 1.0), 20000))
    ++counts[value];
  int top = 0;
  for (const auto& [value, count] : counts) top = std::max(top, count);
  EXPECT_NEAR(top / 20000.0, 1 / 9.7876, 0.015);  // The harmonic number of 10000.
}

TEST(InputsTest, ZipfIsTheSameOnBothSidesOfTheTablesSize) {
  for (const double exponent : {0.7, 1.0, 1.3}) {
    double shares[2][3] = {};
    for (int side = 0; side < 2; ++side) {
      const ZipfRanks ranks(65536 + static_cast<std::uint64_t>(side), exponent);
      constexpr std::uint64_t kDraws = 200'000;
      for (std::uint64_t i = 0; i < kDraws; ++i) {
        const std::uint64_t rank = ranks.Draw(5, i);
        ASSERT_LE(rank, 65536u);
        if (rank < 3) shares[side][rank] += 1.0 / kDraws;
      }
    }
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_NEAR(shares[0][rank], shares[1][rank], 0.006) << exponent << " " << rank;
    }
  }
  EXPECT_EQ(ZipfRanks(1, 1.0).Draw(1, 1), 0u);
}

TEST(InputsTest, ListsRunsAndOffsets) {
  Fill fill = IndexFill(Fill::Kind::kIndexOffsets, 0, 0);
  fill.list = {3, 0, 4};
  EXPECT_EQ(Indices(fill, 4), (std::vector<std::int64_t>{0, 3, 3, 7}));
  BoundTensor wrong = MakeTensor("i", Role::kIndex, DType::kI64, {3});
  wrong.fill = fill;
  EXPECT_EQ(MakeInput(wrong, 1, InputSet::kDeclared, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  fill = IndexFill(Fill::Kind::kIndexRuns, 0, 100);
  fill.list = {3, 2};
  const auto runs = Indices(fill, 10);
  EXPECT_EQ(runs[0], runs[2]);
  EXPECT_NE(runs[2], runs[3]);
  EXPECT_EQ(runs[3], runs[4]);
  EXPECT_NE(runs[4], runs[5]);
}

TEST(InputsTest, RowsOverrideTheFill) {
  BoundTensor tensor = MakeTensor("x", Role::kIn, DType::kF16, {4, 8});
  Fill row;
  row.kind = Fill::Kind::kConstant;
  row.a = 3;
  tensor.fill.rows = {{2, row}};
  const auto bytes = Make(tensor, 5);
  for (int c = 0; c < 8; ++c) EXPECT_EQ(DecodeFloat(DType::kF16, bytes.data(), 16 + c), 3);
  EXPECT_NE(DecodeFloat(DType::kF16, bytes.data(), 8), 3);
}

TEST(InputsTest, FilesAreReadAndTheirMistakesNamed) {
  BoundTensor tensor = MakeTensor("x", Role::kIn, DType::kF32, {2});
  tensor.fill.kind = Fill::Kind::kFile;
  tensor.fill.file = "x.npy";
  const float values[2] = {1.5f, -2};
  const std::string data(reinterpret_cast<const char*>(values), 8);
  const auto good =
      MakeInput(tensor, 1, InputSet::kDeclared, {{"x.npy", Npy("<f4", "(2,)", data)}});
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(DecodeFloat(DType::kF32, good->data(), 1), -2);
  for (const std::string& bad : {std::string("nonsense"), Npy("<f4", "(3,)", data),
                                 Npy(">f4", "(2,)", data), Npy("<f4", "(1,)", data.substr(4))}) {
    EXPECT_EQ(MakeInput(tensor, 1, InputSet::kDeclared, {{"x.npy", bad}}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  const auto missing = MakeInput(tensor, 1, InputSet::kDeclared, {});
  EXPECT_THAT(std::string(missing.status().message()), ::testing::HasSubstr("x.npy"));
}

TEST(InputsTest, FlipChangesOneElementWithinTheFill) {
  for (const auto kind : {Fill::Kind::kNormal, Fill::Kind::kUniform}) {
    BoundTensor tensor = MakeTensor("x", Role::kIn, DType::kF32, {50});
    tensor.fill.kind = kind;
    tensor.fill.a = kind == Fill::Kind::kUniform ? -1 : 0;
    const auto before = Make(tensor, 9);
    for (int at = 0; at < 50; ++at) {
      auto after = before;
      FlipElement(tensor, at, after);
      int changed = 0;
      for (int i = 0; i < 50; ++i) {
        const double a = DecodeFloat(DType::kF32, before.data(), i),
                     b = DecodeFloat(DType::kF32, after.data(), i);
        changed += a != b;
        if (i == at) {
          EXPECT_GE(std::fabs(a - b), 0.5);
        }
        if (i == at && kind == Fill::Kind::kNormal) {
          EXPECT_EQ(b, at % 2 == 0 ? 5 : -5);
        }
        if (kind == Fill::Kind::kUniform) {
          EXPECT_LE(std::fabs(b), 1);
        }
      }
      EXPECT_EQ(changed, 1);
    }
  }
}

TEST(InputsTest, TheFingerprintIsTheSameForOneBuild) {
  EXPECT_EQ(InputsFingerprint().size(), 64u);
  EXPECT_EQ(InputsFingerprint(), InputsFingerprint());
}

TEST(InputsTest, SetsHoldWhatTheySay) {
  BoundTensor tensor = MakeTensor("x", Role::kIn, DType::kF32, {40, 50});
  const auto value = [](const std::vector<std::uint8_t>& bytes, int i) {
    return DecodeFloat(DType::kF32, bytes.data(), i);
  };
  const auto ints = Make(tensor, 1, InputSet::kExactIntegers);
  const auto negative = Make(tensor, 1, InputSet::kAllNegative);
  const auto hot = Make(tensor, 1, InputSet::kOneHot);
  const auto zero = Make(tensor, 1, InputSet::kAllZero);
  const auto edge = Make(tensor, 1, InputSet::kEdgeValues);
  int subnormal = 0;
  for (int i = 0; i < 2000; ++i) {
    EXPECT_EQ(value(ints, i), std::round(value(ints, i)));
    EXPECT_LE(std::fabs(value(ints, i)), 2);
    EXPECT_LE(value(negative, i), 0);
    EXPECT_EQ(value(zero, i), 0);
    EXPECT_TRUE(std::isfinite(value(edge, i)));
    subnormal += value(edge, i) != 0 && std::fabs(value(edge, i)) < 1.2e-38;
  }
  EXPECT_GT(subnormal, 0);
  for (int r = 0; r < 40; ++r) {
    int nonzero = 0;
    for (int c = 0; c < 50; ++c) nonzero += value(hot, r * 50 + c) != 0;
    EXPECT_EQ(nonzero, 1);
  }
  const auto closed = Make(tensor, 1, InputSet::kNonFinite);
  tensor.nonfinite = true;
  const auto open = Make(tensor, 1, InputSet::kNonFinite);
  int bad = 0;
  for (int i = 0; i < 2000; ++i) {
    EXPECT_TRUE(std::isfinite(value(closed, i)));
    bad += !std::isfinite(value(open, i));
  }
  EXPECT_GT(bad, 5);
  // Zeros, since nothing times infinity is NaN.
  int zeros = 0;
  for (int i = 0; i < 2000; ++i) zeros += value(open, i) == 0;
  EXPECT_GT(zeros, 300);
}

// Squares overflow here, and sums do not: beyond what a contract needs, unless the baseline can.
TEST(InputsTest, LargeValuesOverflowInProductsOnly) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const BoundTensor tensor = MakeTensor("x", Role::kIn, dtype, {40, 50});
    const auto bytes = Make(tensor, 1, InputSet::kLargeValues);
    double most = 0, sum = 0;
    for (int i = 0; i < 2000; ++i) {
      const double value = DecodeFloat(dtype, bytes.data(), i);
      ASSERT_TRUE(std::isfinite(value));
      most = std::max(most, std::fabs(value));
      sum += std::fabs(value);
    }
    EXPECT_GT(most * most, MaxFinite(dtype));
    if (dtype != DType::kF16) {
      EXPECT_LT(sum, MaxFinite(dtype));
    }
  }
}

TEST(InputsTest, SetsOfIntegersStayInRangeAndLeaveFloatsAlone) {
  BoundTensor index = MakeTensor("i", Role::kIn, DType::kI32, {999});
  for (const Fill::Kind kind :
       {Fill::Kind::kIndexUniform, Fill::Kind::kIndexZipf, Fill::Kind::kUniform}) {
    index.fill.kind = kind;
    index.fill.lo = 5;
    index.fill.hi = 1006;
    index.fill.a = kind == Fill::Kind::kIndexZipf ? 1.2 : 5;
    index.fill.b = 1005;
    const auto values = [&](InputSet set) {
      const auto bytes = Make(index, 3, set);
      std::vector<std::int64_t> out;
      for (int i = 0; i < 999; ++i) {
        out.push_back(DecodeInteger(DType::kI32, bytes.data(), i));
        EXPECT_GE(out.back(), 5);
        EXPECT_LE(out.back(), 1005);
      }
      return out;
    };
    const auto distinct = [](const std::vector<std::int64_t>& all) {
      return std::set<std::int64_t>(all.begin(), all.end());
    };
    EXPECT_GT(distinct(values(InputSet::kDeclared)).size(), 100u);
    EXPECT_EQ(distinct(values(InputSet::kExtremeIntegers)), (std::set<std::int64_t>{5, 1005}));
    EXPECT_EQ(distinct(values(InputSet::kEqualIntegers)).size(), 1u);
    EXPECT_THAT(distinct(values(InputSet::kFewIntegers)).size(),
                testing::AllOf(testing::Ge(2u), testing::Le(3u)));
    const auto sorted = values(InputSet::kSortedIntegers);
    EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end()));
    EXPECT_GT(distinct(sorted).size(), 900u);
    EXPECT_EQ(values(InputSet::kTies), values(InputSet::kDeclared));  // A set of floats.
    EXPECT_FALSE(DrawnFillOf(index, 3, InputSet::kFewIntegers));
  }
  const BoundTensor x = MakeTensor("x", Role::kIn, DType::kF32, {40, 50});
  EXPECT_EQ(Make(x, 3, InputSet::kEqualIntegers), Make(x, 3, InputSet::kDeclared));
}

// A variance as the difference of two means is wrong here, and in no other set.
TEST(InputsTest, TheOffsetSetIsFarFromZeroBesideItsSpread) {
  for (const Fill::Kind kind : {Fill::Kind::kNormal, Fill::Kind::kUniform}) {
    BoundTensor tensor = MakeTensor("x", Role::kIn, DType::kF32, {40, 50});
    tensor.fill.kind = kind;
    tensor.fill.a = kind == Fill::Kind::kNormal ? 0 : -1;
    tensor.fill.b = 1;
    const auto bytes = Make(tensor, 1, InputSet::kOffset);
    for (int r = 0; r < 40; ++r) {
      double low = 1e9, high = -1e9;
      for (int c = 0; c < 50; ++c) {
        const double value = DecodeFloat(DType::kF32, bytes.data(), r * 50 + c);
        low = std::min(low, value);
        high = std::max(high, value);
      }
      EXPECT_GT(high, low);
      EXPECT_GT(std::fabs(low + high) / 2, 20 * (high - low)) << r;
      if (kind == Fill::Kind::kUniform) {
        EXPECT_LE(high, 1);
      }
    }
  }
}

}  // namespace
}  // namespace fettle
