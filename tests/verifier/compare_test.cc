// SPDX-License-Identifier: Apache-2.0
#include "verifier/compare.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "tests/verifier/case_fixtures.h"
#include "verifier/random.h"

namespace fettle {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<std::uint8_t> Encode(const BoundTensor& tensor, const std::vector<double>& values) {
  ExpectedOutput out;
  out.values = values;
  return RoundExpected(tensor, out);
}

BoundTolerance Tolerance(BoundTolerance::Kind kind, double rtol = 0, double atol = 0) {
  BoundTolerance tolerance;
  tolerance.output = "y";
  tolerance.kind = kind;
  tolerance.rtol = rtol;
  tolerance.atol = atol;
  return tolerance;
}

// Compares one row of values written by a candidate with what the reference says.
Comparison Compare(DType dtype, const BoundTolerance& tolerance, const std::vector<double>& want,
                   const std::vector<double>& got) {
  const BoundTensor tensor =
      MakeTensor("y", Role::kOut, dtype, {static_cast<std::int64_t>(want.size())});
  ExpectedOutput expected;
  expected.name = "y";
  expected.values = want;
  return CompareOutput(tensor, tolerance, expected, Encode(tensor, got));
}

class CompareEveryDType : public ::testing::TestWithParam<int> {
 protected:
  DType dtype() const { return static_cast<DType>(GetParam()); }
  std::vector<double> Values(int count) const {
    std::vector<double> values;
    for (int i = 0; i < count; ++i) {
      double value = IsInteger(dtype())
                         ? std::floor(60 * RandomUnit(3, static_cast<std::uint64_t>(i)))
                         : RandomNormal(3, static_cast<std::uint64_t>(i));
      if (dtype() == DType::kF8E8M0) value = std::ldexp(1.0, i % 7 - 3);
      if (dtype() == DType::kBool) value = i % 2;
      values.push_back(value);
    }
    return values;
  }
};

TEST_P(CompareEveryDType, AcceptsTheRoundedReference) {
  const std::vector<double> values = Values(1001);
  for (const auto kind : {BoundTolerance::Kind::kAuto, BoundTolerance::Kind::kExactValues}) {
    const Comparison result = Compare(dtype(), Tolerance(kind), values, values);
    EXPECT_TRUE(result.passed) << result.message;
    EXPECT_EQ(result.errors.compared, 1001);
  }
}

TEST_P(CompareEveryDType, RejectsOneElementBesideTheBoundAndAcceptsOneInside) {
  std::vector<double> want = Values(64);
  for (double& value : want) {
    value = IsFloat(dtype()) ? RoundTo(dtype(), value) : value;
  }
  // Where 16 tolerances can be told apart from the value.
  const double step = IsInteger(dtype()) ? 1 : 0.5 + std::fabs(want[17]);
  std::vector<double> got = want;
  got[17] = dtype() == DType::kBool ? 1 - want[17] : want[17] + step;
  if (dtype() == DType::kF8E8M0) got[17] = 4 * want[17];
  EXPECT_FALSE(Compare(dtype(), Tolerance(BoundTolerance::Kind::kExactValues), want, got).passed);
  if (dtype() != DType::kF8E8M0) {
    const Comparison inside =
        Compare(dtype(), Tolerance(BoundTolerance::Kind::kRelative, 0, 2 * step), want, got);
    EXPECT_TRUE(inside.passed) << inside.message;
  }
  const Comparison outside =
      Compare(dtype(), Tolerance(BoundTolerance::Kind::kRelative, 0, step / 4), want, got);
  EXPECT_FALSE(outside.passed);
  EXPECT_EQ(outside.errors.first_index, 17);
  EXPECT_EQ(outside.errors.mismatches, 1);
}

TEST_P(CompareEveryDType, ZerosFailUnderAuto) {
  if (dtype() == DType::kF8E8M0) return;  // Has no zero.
  const std::vector<double> want = Values(1000);
  const Comparison result = Compare(dtype(), Tolerance(BoundTolerance::Kind::kAuto), want,
                                    std::vector<double>(want.size(), 0.0));
  EXPECT_FALSE(result.passed);
}

INSTANTIATE_TEST_SUITE_P(DTypes, CompareEveryDType, ::testing::Range(0, kDTypeCount),
                         [](const auto& one) {
                           return std::string(DTypeName(static_cast<DType>(one.param)));
                         });

TEST(CompareTest, NaNNeverPassesForANumber) {
  for (const auto kind : {BoundTolerance::Kind::kAuto, BoundTolerance::Kind::kExactValues}) {
    const Comparison result = Compare(DType::kF32, Tolerance(kind), {1, 2, 3}, {1, kNan, 3});
    EXPECT_FALSE(result.passed);
    EXPECT_EQ(result.reason_code, "class_mismatch");
    EXPECT_EQ(result.errors.first_index, 1);
  }
  EXPECT_FALSE(
      Compare(DType::kF32, Tolerance(BoundTolerance::Kind::kRelative, 1e9, 1e9), {1}, {kNan})
          .passed);
}

TEST(CompareTest, ClassesMustAgree) {
  const BoundTolerance loose = Tolerance(BoundTolerance::Kind::kRelative, 1e9, 1e9);
  EXPECT_FALSE(Compare(DType::kF32, loose, {kInf}, {7}).passed);
  EXPECT_FALSE(Compare(DType::kF32, loose, {kNan}, {7}).passed);
  EXPECT_FALSE(Compare(DType::kF32, loose, {kInf}, {-kInf}).passed);
  EXPECT_FALSE(Compare(DType::kF32, loose, {-3}, {kInf}).passed);
  EXPECT_TRUE(Compare(DType::kF32, loose, {kInf, kNan, -kInf}, {kInf, kNan, -kInf}).passed);
}

TEST(CompareTest, NegativeReferencesAreNotFree) {
  EXPECT_FALSE(
      Compare(DType::kF32, Tolerance(BoundTolerance::Kind::kRelative, 1e-3, 1e-3), {-3}, {500})
          .passed);
}

TEST(CompareTest, OverflowAndSaturationAreBothRight) {
  EXPECT_TRUE(Compare(DType::kF16, AutoTolerance("y"), {1e6, -1e6}, {kInf, -65504}).passed);
  EXPECT_FALSE(Compare(DType::kF16, AutoTolerance("y"), {1e6}, {-65504}).passed);
  EXPECT_FALSE(Compare(DType::kF16, AutoTolerance("y"), {1e6}, {100}).passed);
  EXPECT_TRUE(Compare(DType::kF8E4M3FN, AutoTolerance("y"), {1e6, 1e6}, {448, kNan}).passed);
  EXPECT_FALSE(Compare(DType::kF16, AutoTolerance("y"), {1000}, {kInf}).passed);
}

TEST(CompareTest, SignedZeroCountsOnlyForBits) {
  EXPECT_TRUE(
      Compare(DType::kF32, Tolerance(BoundTolerance::Kind::kExactValues), {0.0}, {-0.0}).passed);
  EXPECT_FALSE(
      Compare(DType::kF32, Tolerance(BoundTolerance::Kind::kExactBits), {0.0}, {-0.0}).passed);
}

TEST(CompareTest, RawBytesAreComparedBitByBit) {
  const BoundTensor tensor = MakeTensor("y", Role::kOut, DType::kI64, {2});
  ExpectedOutput expected;
  expected.bytes.assign(16, 0);
  const std::int64_t large = (std::int64_t{1} << 60) + 1;
  std::memcpy(expected.bytes.data(), &large, 8);
  std::vector<std::uint8_t> got = expected.bytes;
  EXPECT_TRUE(
      CompareOutput(tensor, Tolerance(BoundTolerance::Kind::kExactBits), expected, got).passed);
  got[0] ^= 1;
  EXPECT_FALSE(
      CompareOutput(tensor, Tolerance(BoundTolerance::Kind::kExactBits), expected, got).passed);
}

TEST(CompareTest, WrongSizesFail) {
  const BoundTensor tensor = MakeTensor("y", Role::kOut, DType::kF32, {2});
  ExpectedOutput expected;
  expected.values = {1, 2};
  EXPECT_FALSE(
      CompareOutput(tensor, AutoTolerance("y"), expected, std::vector<std::uint8_t>(4)).passed);
}

TEST(CompareTest, SampledRowsAreFoundInTheDenseOutput) {
  const BoundTensor tensor = MakeTensor("y", Role::kOut, DType::kF32, {100, 3});
  std::vector<double> all(300);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<double>(i);
  ExpectedOutput expected;
  expected.name = "y";
  expected.row_elements = 3;
  expected.rows = {4, 77};
  expected.values = {12, 13, 14, 231, 232, 233};
  std::vector<std::uint8_t> bytes = Encode(tensor, all);
  EXPECT_TRUE(CompareOutput(tensor, AutoTolerance("y"), expected, bytes).passed);
  EncodeFloat(DType::kF32, 5, bytes.data(), 232);
  const Comparison result = CompareOutput(tensor, AutoTolerance("y"), expected, bytes);
  EXPECT_EQ(result.errors.first_index, 232);
  EXPECT_EQ(result.errors.compared, 6);
}

TEST(CompareTest, EveryElementOfALargeOutputIsCompared) {
  const std::int64_t count = 1 << 18;
  const BoundTensor tensor = MakeTensor("y", Role::kOut, DType::kF32, {count});
  ExpectedOutput expected;
  expected.values.assign(static_cast<std::size_t>(count), 1.0);
  std::vector<std::uint8_t> bytes = Encode(tensor, expected.values);
  for (const std::int64_t at : {std::int64_t{0}, count / 2, count - 1, std::int64_t{98765}}) {
    EncodeFloat(DType::kF32, 2, bytes.data(), at);
    const Comparison result = CompareOutput(tensor, AutoTolerance("y"), expected, bytes);
    EXPECT_EQ(result.errors.first_index, at);
    EXPECT_EQ(result.errors.compared, count);
    EncodeFloat(DType::kF32, 1, bytes.data(), at);
  }
}

// The bound of an honest float dot product of K terms, and of the downgrades it must reject.
TEST(CompareTest, AutoAdmitsFloatSumsAndRejectsHalfInputs) {
  constexpr int kTerms = 1024, kRows = 64;
  BoundTolerance tolerance = AutoTolerance("y", kTerms);
  ExpectedOutput expected;
  std::vector<double> honest, half, skipped;
  for (std::uint64_t r = 0; r < kRows; ++r) {
    double exact = 0, squares = 0, low = 0, some = 0;
    float sum = 0;
    for (std::uint64_t k = 0; k < kTerms; ++k) {
      const auto a = static_cast<float>(RandomNormal(r, k)),
                 b = static_cast<float>(RandomNormal(r + 99, k));
      exact += double{a} * b;
      squares += double{a} * b * a * b;
      sum += a * b;
      low += RoundTo(DType::kF16, a) * RoundTo(DType::kF16, b);
      if (k < kTerms - 16) some += double{a} * b;
    }
    expected.values.push_back(exact);
    expected.magnitude.push_back(std::sqrt(squares));
    expected.length.push_back(kTerms);
    honest.push_back(sum);
    half.push_back(low);
    skipped.push_back(some);
  }
  const BoundTensor tensor = MakeTensor("y", Role::kOut, DType::kF32, {kRows});
  // One length for all, as the reference process sends it, means the same.
  for (int pass = 0; pass < 2; ++pass, expected.length = {kTerms}) {
    const auto errors = [&](const std::vector<double>& values) {
      return CompareOutput(tensor, tolerance, expected, Encode(tensor, values)).errors;
    };
    EXPECT_EQ(errors(honest).mismatches, 0);
    EXPECT_GT(errors(half).mismatches, 50);
    EXPECT_GT(errors(skipped).mismatches, 60);
  }
}

TEST(CompareTest, BudgetFollowsTheBaseline) {
  const BoundTensor tensor = MakeTensor("y", Role::kOut, DType::kF32, {4096});
  Comparison candidate;
  candidate.errors.compared = 4096;
  candidate.errors.reference_rms = 1;
  candidate.max_reference = 4;
  candidate.errors.rms = 1e-6;
  candidate.max_error = 4e-6;
  EXPECT_FALSE(OverBudget(tensor, candidate, {6e-7, 2e-6}));
  EXPECT_TRUE(OverBudget(tensor, candidate, {1e-8, 2e-6}));
  EXPECT_TRUE(OverBudget(tensor, candidate, {6e-7, 1e-8}));
  candidate.errors.compared = 100;  // Too few to say.
  EXPECT_FALSE(OverBudget(tensor, candidate, {1e-8, 1e-8}));
}

// Row-wise operators share one sum's error over a row: an RMS over five rows is five samples.
TEST(CompareTest, FewRowsGetSlackInTheBudget) {
  const auto over = [](std::int64_t rows) {
    const BoundTensor tensor = MakeTensor("y", Role::kOut, DType::kF32, {rows, 4096});
    Comparison candidate;
    candidate.errors.output = "y";
    candidate.errors.compared = rows * 4096;
    candidate.errors.reference_rms = 1;
    candidate.max_reference = 4;
    candidate.errors.rms = 1.3 * std::ldexp(1.0, -24);
    candidate.max_error = 1e-7;
    return OverBudget(tensor, candidate, {1e-9, 1e-7}).has_value();
  };
  EXPECT_FALSE(over(5));
  EXPECT_TRUE(over(4096));
}

// y[r] = sum of x[r][k] w[k] in f32, for 1024 rows: in `parts` running sums that are added at the
// end, of factors rounded to `bits` bits. Whether that is over the budget of a sum in a tree.
class SumsTest : public testing::Test {
 protected:
  bool Over(std::size_t length, std::size_t parts, int bits, bool positive, std::uint64_t seed) {
    constexpr std::int64_t kRows = 1024;
    const BoundTensor tensor = MakeTensor("y", Role::kOut, DType::kF32, {kRows});
    BoundTolerance tolerance = Tolerance(BoundTolerance::Kind::kAuto);
    tolerance.reduce = static_cast<std::int64_t>(length);
    ExpectedOutput expected;
    std::vector<float> sums, tree;
    std::vector<double> drawn(length + 1021);
    RandomNormals(seed, 0, drawn);
    for (std::size_t row = 0; row < kRows; ++row) {
      double exact = 0, magnitude = 0;
      std::vector<float> part(parts), fine(1024);
      for (std::size_t k = 0; k < length; ++k) {
        auto x = static_cast<float>(drawn[k + row % 1021]);
        auto w = static_cast<float>(drawn[(k * 7 + row * 31) % drawn.size()]);
        if (positive) x = std::fabs(x), w = 1;
        exact += static_cast<double>(x) * w;
        magnitude += std::fabs(static_cast<double>(x) * w);
        part[k % parts] += RoundedTo(bits, x) * RoundedTo(bits, w);
        fine[k % fine.size()] += x * w;
      }
      expected.values.push_back(exact);
      expected.magnitude.push_back(magnitude);
      sums.push_back(std::accumulate(part.begin(), part.end(), 0.0F));
      for (std::size_t step = fine.size() / 2; step > 0; step /= 2) {
        for (std::size_t i = 0; i < step; ++i) fine[i] += fine[i + step];
      }
      tree.push_back(fine[0]);
    }
    const auto judge = [&](const std::vector<float>& values) {
      return CompareOutput(tensor, tolerance, expected, Bytes(values));
    };
    const Comparison candidate = judge(sums), baseline = judge(tree);
    return OverBudget(tensor, candidate, {baseline.errors.rms, baseline.max_error}).has_value();
  }

 private:
  static float RoundedTo(int bits, float value) {
    auto word = std::bit_cast<std::uint32_t>(value);
    if (bits < 24) word = (word + (1U << (23 - bits))) & ~((1U << (24 - bits)) - 1);
    return std::bit_cast<float>(word);
  }
  static std::vector<std::uint8_t> Bytes(const std::vector<float>& values) {
    std::vector<std::uint8_t> bytes(4 * values.size());
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
};

TEST_F(SumsTest, AnotherHonestOrderIsWithinTheBudget) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    for (const bool positive : {true, false}) {
      EXPECT_FALSE(Over(1000, 1, 24, positive, seed)) << "one running sum, seed " << seed;
      EXPECT_FALSE(Over(9973, 16, 24, positive, seed)) << "sixteen, seed " << seed;
    }
  }
}

TEST_F(SumsTest, FewerBitsAreOverTheBudget) {
  for (const std::size_t length : {64U, 1000U, 9973U}) {
    EXPECT_TRUE(Over(length, 32, 11, /*positive=*/false, 7)) << "TF32, " << length;
    EXPECT_TRUE(Over(length, 32, 11, /*positive=*/true, 7)) << "TF32, " << length;
  }
  EXPECT_TRUE(Over(64, 32, 16, /*positive=*/false, 7)) << "two bf16 for one f32";
}

TEST(CompareTest, SpreadIsHalfOfTheTolerance) {
  const BoundTensor tensor = MakeTensor("y", Role::kOut, DType::kF32, {2});
  ExpectedOutput expected;
  expected.values = {1, 1};
  const BoundTolerance tolerance = Tolerance(BoundTolerance::Kind::kRelative, 0, 0.1);
  const auto a = Encode(tensor, {1, 1}), b = Encode(tensor, {1.04, 1.06});
  EXPECT_EQ(CountSpread(tensor, tolerance, expected, a, b), 1);
}

}  // namespace
}  // namespace fettle
