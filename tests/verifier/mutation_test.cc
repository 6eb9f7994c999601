// SPDX-License-Identifier: Apache-2.0
#include "verifier/mutation.h"

#include <cstring>
#include <set>

#include "tests/fakes/host_device.h"
#include "tests/fakes/in_process_runner.h"
#include "tests/verifier/case_fixtures.h"

namespace fettle {
namespace {

using Args = std::span<const KernelArgument>;

class MutationTest : public ::testing::Test {
 protected:
  // A task y = f(x) with rows x cols outputs; `body` computes y.values[i] from x.values.
  absl::StatusOr<CheckerTest> Test(const std::string& body, const BoundTolerance& tolerance,
                                   std::function<float(const float* x, std::int64_t i)> kernel,
                                   const std::string& baseline = "kernel", std::int64_t rows = 8,
                                   std::int64_t cols = 16, std::uint64_t seed = 0) {
    ReferenceSource source;
    source.task_digest = body;
    source.reference = {"reference.cc", "f", {}};
    source.files["reference.cc"] = fmt::format(R"(
#include "fettle_reference.h"
#include <cmath>
extern "C" void f(fettle_ref* ref) {{
  const double* x = fettle_input(ref, "x").values;
  fettle_result& y = fettle_output(ref, "y");
  for (int64_t r = 0; r < fettle_row_count(y); ++r) {{
    for (int64_t c = 0; c < {0}; ++c) {{
      const int64_t i = fettle_row(y, r) * {0} + c;
      y.values[r * {0} + c] = {1};
    }}
  }}
}})",
                                               cols, body);
    ReferenceOptions options;
    options.start = PlainReferenceStarter(FETTLE_REFERENCE_HOST);
    auto reference = Reference::Create(source, options);
    if (!reference.ok()) return reference.status();
    HostDevice device;
    device.Register("k", [=](const LaunchConfig&, Args args) {
      const auto* x = ArgumentAs<const float*>(args, 0);
      for (std::int64_t i = 0; i < rows * cols; ++i) ArgumentAs<float*>(args, 1)[i] = kernel(x, i);
      return absl::OkStatus();
    });
    InProcessRunner runner(device);
    const auto module = runner.LoadModule("", {"k"});
    CaseUnderTest one;
    one.bound_case.label = "checked/0";
    one.bound_case.tensors = {MakeTensor("x", Role::kIn, DType::kF32, {rows, cols}),
                              MakeTensor("y", Role::kOut, DType::kF32, {rows, cols})};
    one.bound_case.tolerances = {tolerance};
    one.kernel = OneLaunch(*module, "k", {TensorArg(0), TensorArg(1)});
    VerifyOptions how;
    how.seed = seed;
    return TestChecker({one}, baseline == "same" ? source.files["reference.cc"] : baseline, runner,
                       **reference, how);
  }
  // Expects that the task is accepted whatever the seed; how many seeds let a wrong answer pass.
  int SeedsOfChance(const std::string& body, const BoundTolerance& tolerance,
                    const std::function<float(const float* x, std::int64_t i)>& kernel,
                    std::int64_t rows, std::int64_t cols) {
    int by_chance = 0;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      const auto test = Test(body, tolerance, kernel, "kernel", rows, cols, seed);
      EXPECT_TRUE(test.ok()) << test.status();
      if (!test.ok()) return 0;
      EXPECT_TRUE(test->accepted) << "seed " << seed << ": " << test->failure.message;
      by_chance += test->registration["mutations"].dump().find("false") != std::string::npos;
    }
    return by_chance;
  }
  static std::string Reason(const absl::StatusOr<CheckerTest>& test) {
    EXPECT_TRUE(test.ok()) << test.status();
    return test.ok() ? test->failure.reason_code : "error";
  }
};

TEST_F(MutationTest, HonestTaskIsAccepted) {
  const auto test =
      Test("2 * x[i]", AutoTolerance("y"), [](const float* x, std::int64_t i) { return 2 * x[i]; });
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_TRUE(test->accepted) << test->failure.message;
  std::set<std::string> tried;
  for (const auto& one : test->registration["mutations"]) {
    tried.insert(one["mutation"].get<std::string>());
    EXPECT_TRUE(one["rejected"].get<bool>()) << one;
  }
  EXPECT_THAT(tried,
              ::testing::IsSupersetOf({"zeros", "ones", "mean", "poison_a", "poison_b", "one_nan",
                                       "one_element_high", "one_element_low", "rows_swapped",
                                       "last_tile_missing", "half_right", "sign_flipped",
                                       "transposed", "other_seed", "copy_of_x", "rounded_to_f16"}));
}

TEST_F(MutationTest, LooseToleranceIsRefused) {
  BoundTolerance loose;
  loose.output = "y";
  loose.kind = BoundTolerance::Kind::kRelative;
  loose.atol = 1e-2;
  const auto test =
      Test("1e-4 * x[i]", loose, [](const float* x, std::int64_t i) { return 1e-4f * x[i]; });
  ASSERT_TRUE(test.ok()) << test.status();
  EXPECT_FALSE(test->accepted);
  EXPECT_EQ(test->failure.verdict, Verdict::kRefused);
  EXPECT_EQ(test->failure.stage, Stage::kRegister);
  const std::string findings = test->registration["findings"].dump();
  EXPECT_THAT(findings, ::testing::HasSubstr("zeros_passes"));
}

// A wrong answer of one element is right by chance for some seeds: gemm's b is a * b where a is
// drawn near 1. That refused a sound task now and then.
TEST_F(MutationTest, ChanceInATinyCaseRefusesNoTask) {
  BoundTolerance loose;
  loose.output = "y";
  loose.kind = BoundTolerance::Kind::kRelative;
  loose.atol = 0.1;
  EXPECT_GT(SeedsOfChance(
                "x[i] * x[i]", loose, [](const float* x, std::int64_t i) { return x[i] * x[i]; },
                /*rows=*/1, /*cols=*/1),
            0);
  loose.atol = 1000;  // No draw shows anything.
  const auto wrong = Test(
      "x[i] * x[i]", loose, [](const float* x, std::int64_t i) { return x[i] * x[i]; }, "kernel", 1,
      1);
  ASSERT_TRUE(wrong.ok()) << wrong.status();
  EXPECT_TRUE(wrong->failure.reason_code.ends_with("_passes")) << wrong->failure.reason_code;
}

// 64 elements that hang on one number: gdpa's only key has weight 1, and the answer is a copy of v,
// in some draws. That refused a sound task now and then.
TEST_F(MutationTest, ChanceInOneNumberRefusesNoTask) {
  BoundTolerance loose;
  loose.output = "y";
  loose.kind = BoundTolerance::Kind::kRelative;
  loose.atol = 0.01;
  EXPECT_GT(SeedsOfChance(
                "(x[0] * x[0] < 2 ? x[0] * x[0] / 2 : 1.001) * x[i]", loose,
                [](const float* x, std::int64_t i) {
                  return (x[0] * x[0] < 2 ? x[0] * x[0] / 2 : 1.001f) * x[i];
                },
                /*rows=*/4, /*cols=*/16),
            0);
  // Where most draws show nothing it is the task's fault.
  EXPECT_EQ(Reason(Test(
                "(x[0] * x[0] < 0.01 ? 0.5 : 1.001) * x[i]", loose,
                [](const float* x, std::int64_t i) {
                  return (x[0] * x[0] < 0.01 ? 0.5f : 1.001f) * x[i];
                },
                "kernel", 4, 16)),
            "copy_of_x_passes");
}

TEST_F(MutationTest, ConstantAnswerIsRefused) {
  EXPECT_EQ(Reason(Test("0.25 + 0 * x[i]", AutoTolerance("y"),
                        [](const float*, std::int64_t) { return 0.25f; })),
            "constant_output");
}

TEST_F(MutationTest, WrongBaselineIsRefused) {
  EXPECT_EQ(Reason(Test("2 * x[i]", AutoTolerance("y"),
                        [](const float* x, std::int64_t i) { return 3 * x[i]; })),
            "baseline_rejected");
}

TEST_F(MutationTest, SelfReferenceIsRefused) {
  EXPECT_EQ(Reason(Test(
                "2 * x[i]", AutoTolerance("y"),
                [](const float* x, std::int64_t i) { return 2 * x[i]; }, "same")),
            "self_reference");
}

TEST(MakeMutationsTest, ZerosHaveNoOtherSign) {
  BoundCase bound_case;
  bound_case.tensors = {MakeTensor("y", Role::kOut, DType::kF32, {32})};
  BoundTolerance tolerance;
  tolerance.output = "y";
  bound_case.tolerances = {tolerance};
  ExpectedOutput expected;
  expected.name = "y";
  expected.values.assign(32, 0.0);
  const auto names = [&](float value) {
    std::vector<std::uint8_t> right(128, 0), other(128, 1);
    std::memcpy(right.data() + 64, &value, sizeof value);
    std::set<std::string> found;
    for (const Mutation& one : MakeMutations(bound_case, expected, right, other, {}, 1)) {
      found.insert(one.name);
    }
    return found;
  };
  EXPECT_FALSE(names(0).contains("sign_flipped"));
  EXPECT_FALSE(names(0).contains("zeros"));
  EXPECT_TRUE(names(2).contains("sign_flipped"));
}

}  // namespace
}  // namespace fettle
