// SPDX-License-Identifier: Apache-2.0
#include "verifier/reference.h"

#include <array>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <thread>

#include "tests/verifier/case_fixtures.h"
#include "verifier/compare.h"

namespace fettle {
namespace {

constexpr const char* kLayernorm = R"(
#include "fettle_reference.h"
#include <cmath>
extern "C" void layernorm_ref(fettle_ref* ref) {
  const fettle_tensor& x = fettle_input(ref, "x");
  const fettle_tensor& gamma = fettle_input(ref, "gamma");
  const int64_t cols = fettle_size(ref, "cols");
  const double eps = fettle_scalar(ref, "eps");
  fettle_result& y = fettle_output(ref, "y");
  for (int64_t i = 0; i < fettle_row_count(y); ++i) {
    const double* row = x.values + fettle_row(y, i) * cols;
    double sum = 0, square = 0;
    for (int64_t c = 0; c < cols; ++c) sum += row[c];
    const double mean = sum / cols;
    for (int64_t c = 0; c < cols; ++c) square += (row[c] - mean) * (row[c] - mean);
    const double scale = 1 / std::sqrt(square / cols + eps);
    for (int64_t c = 0; c < cols; ++c) {
      y.values[i * cols + c] = (row[c] - mean) * scale * gamma.values[c];
    }
  }
}
extern "C" void layernorm_ref_work(fettle_ref* ref, double* bytes, double* flops) {
  *bytes = 8.0 * fettle_size(ref, "rows") * fettle_size(ref, "cols");
  *flops = *bytes;
}
)";

class ReferenceTest : public ::testing::Test {
 protected:
  static ReferenceOptions Options() {
    ReferenceOptions options;
    options.start = PlainReferenceStarter(FETTLE_REFERENCE_HOST);
    options.call_limit = std::chrono::seconds(20);
    return options;
  }
  static ReferenceSource Source(const std::string& text, const std::string& function) {
    ReferenceSource source;
    source.task_digest = "task";
    source.reference = {"reference.cc", function, {}};
    source.files["reference.cc"] = text;
    return source;
  }
  static BoundCase LayernormCase(std::int64_t rows, std::int64_t cols) {
    BoundCase result;
    result.label = "checked/0";
    result.dims = {{"rows", false, {rows}}, {"cols", false, {cols}}};
    result.tensors = {MakeTensor("x", Role::kIn, DType::kF32, {rows, cols}),
                      MakeTensor("gamma", Role::kIn, DType::kF32, {cols}),
                      MakeTensor("y", Role::kOut, DType::kF32, {rows, cols})};
    BoundScalar eps;
    eps.name = "eps";
    eps.dtype = DType::kF32;
    eps.real = 1e-5f;
    result.scalars = {eps};
    result.tolerances = {AutoTolerance("y", cols)};
    return result;
  }
};

TEST_F(ReferenceTest, ComputesLayernormInDouble) {
  auto reference = Reference::Create(Source(kLayernorm, "layernorm_ref"), Options());
  ASSERT_TRUE(reference.ok()) << reference.status();
  const BoundCase bound = LayernormCase(3, 257);
  const auto expected = (*reference)->Evaluate(bound, {11});
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_EQ((*expected)->outputs.size(), 1u);
  const ExpectedOutput& y = (*expected)->outputs[0];
  EXPECT_EQ(y.tensor, 2);
  ASSERT_EQ(y.values.size(), 3u * 257);
  EXPECT_TRUE(y.magnitude.empty());

  const auto inputs = MakeInputs(bound, {11}, {});
  ASSERT_TRUE(inputs.ok());
  double sum = 0, square = 0;
  for (int c = 0; c < 257; ++c) sum += DecodeFloat(DType::kF32, (*inputs)[0].data(), 257 + c);
  for (int c = 0; c < 257; ++c) {
    const double d = DecodeFloat(DType::kF32, (*inputs)[0].data(), 257 + c) - sum / 257;
    square += d * d;
  }
  const double x = DecodeFloat(DType::kF32, (*inputs)[0].data(), 257 + 5);
  const double gamma = DecodeFloat(DType::kF32, (*inputs)[1].data(), 5);
  EXPECT_NEAR(y.values[257 + 5], (x - sum / 257) / std::sqrt(square / 257 + 1e-5f) * gamma, 1e-12);

  const Comparison good =
      CompareOutput(bound.tensors[2], bound.tolerances[0], y, RoundExpected(bound.tensors[2], y));
  EXPECT_TRUE(good.passed) << good.message;
  const auto work = (*reference)->Work(bound, {11});
  ASSERT_TRUE(work.ok()) << work.status();
  EXPECT_EQ(work->bytes, 8.0 * 3 * 257);
}

TEST_F(ReferenceTest, GivesOneLengthWhereAllAreTheSame) {
  constexpr char kLengths[] = R"(
#include "fettle_reference.h"
extern "C" void lengths_ref(fettle_ref* ref) {
  const int64_t cols = fettle_size(ref, "cols");
  fettle_result& y = fettle_output(ref, "y");
  for (int64_t i = 0; i < fettle_row_count(y) * cols; ++i) {
    y.values[i] = y.magnitude[i] = 1;
    y.length[i] = cols == 7 ? static_cast<double>(i) : 7.0;
  }
}
)";
  auto reference = Reference::Create(Source(kLengths, "lengths_ref"), Options());
  ASSERT_TRUE(reference.ok()) << reference.status();
  const auto varied = (*reference)->Evaluate(LayernormCase(3, 7), {1});
  ASSERT_TRUE(varied.ok()) << varied.status();
  EXPECT_EQ((*varied)->outputs[0].length.size(), 21u);
  EXPECT_EQ((*varied)->outputs[0].length.back(), 20);
  const auto same = (*reference)->Evaluate(LayernormCase(3, 8), {1});
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ((*same)->outputs[0].length, std::vector<double>{7});
  EXPECT_EQ((*same)->outputs[0].magnitude.size(), 24u);
}

TEST_F(ReferenceTest, SamplesRowsOfLargeOutputsAndRemembersResults) {
  ReferenceOptions options = Options();
  options.max_elements = 1000;
  options.cache_dir = (std::filesystem::temp_directory_path() /
                       ("fettle-reference-test-" + std::to_string(getpid())))
                          .string();
  const BoundCase bound = LayernormCase(100, 50);
  std::vector<double> first;
  for (int pass = 0; pass < 2; ++pass) {
    auto reference = Reference::Create(Source(kLayernorm, "layernorm_ref"), options);
    ASSERT_TRUE(reference.ok()) << reference.status();
    const auto expected = (*reference)->Evaluate(bound, {3});
    ASSERT_TRUE(expected.ok()) << expected.status();
    const ExpectedOutput& y = (*expected)->outputs[0];
    EXPECT_EQ(y.rows.size(), 20u);
    EXPECT_EQ(y.rows.front(), 0);
    EXPECT_EQ(y.rows.back(), 99);
    if (pass == 0) first = y.values;
    EXPECT_EQ(y.values, first);
    options.start = [] { return absl::UnavailableError("the second pass needs no process"); };
  }
  // Another build that draws other inputs for the same seed.
  options.inputs = "other";
  auto other = Reference::Create(Source(kLayernorm, "layernorm_ref"), options);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ((*other)->Evaluate(bound, {3}).status().code(), absl::StatusCode::kUnavailable);
  std::filesystem::remove_all(options.cache_dir);
}

TEST_F(ReferenceTest, ComparesSmallOutputsWholeAndLargeOnesShareTheRest) {
  BoundCase bound = LayernormCase(1000, 10);
  BoundTensor output = bound.tensors[2];
  bound.tensors = {output, output, output};
  bound.tensors[1].shape = {5, 10};
  // 2,050 of 10,000 + 50 + 9,000 elements: 1,000 of each large one.
  bound.tensors[2].shape = {900, 10};
  EXPECT_EQ(ChooseRows(bound, 0, 2050, 7).size(), 100u);
  EXPECT_TRUE(ChooseRows(bound, 1, 2050, 7).empty());  // Whole.
  const std::vector<std::int64_t> rows = ChooseRows(bound, 2, 2050, 7);
  ASSERT_EQ(rows.size(), 100u);
  EXPECT_EQ(rows.front(), 0);
  EXPECT_EQ(rows.back(), 899);
  EXPECT_NE(rows, ChooseRows(bound, 2, 2050, 8));
  // As many as there are.
  EXPECT_TRUE(ChooseRows(bound, 0, 19'050, 7).empty());
  EXPECT_TRUE(ChooseRows(bound, 2, 19'050, 7).empty());
  // However many outputs: never more than asked for together, and never without first and last.
  bound.tensors.assign(60, output);
  std::size_t together = 0;
  for (std::size_t i = 0; i < 60; ++i) together += ChooseRows(bound, i, 6000, 7).size() * 10;
  EXPECT_EQ(together, 6000u);
  EXPECT_EQ(ChooseRows(bound, 59, 100, 7), (std::vector<std::int64_t>{0, 999}));
}

TEST_F(ReferenceTest, SeveralThreadsShareItsProcessesAndComputeNothingTwice) {
  ReferenceOptions options = Options();
  options.processes = 3;
  std::atomic<int> started = 0;
  options.start = [&started, start = options.start] {
    ++started;
    return start();
  };
  auto reference = Reference::Create(Source(kLayernorm, "layernorm_ref"), options);
  ASSERT_TRUE(reference.ok()) << reference.status();
  const BoundCase bound = LayernormCase(7, 33);
  // Eight threads ask for the same eight inputs, each in an order of its own.
  std::vector<std::array<std::shared_ptr<const Expected>, 8>> found(8);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < found.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 8; ++i) {
        const std::size_t seed = (i + t) % 8;
        auto expected = (*reference)->Evaluate(bound, {seed});
        if (expected.ok()) found[t][seed] = *expected;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(started, 1);
  EXPECT_LE(started, 3);
  for (const auto& one : found) {
    for (std::size_t seed = 0; seed < 8; ++seed) {
      ASSERT_NE(one[seed], nullptr);
      EXPECT_EQ(one[seed], found[0][seed]);  // The same object.
    }
  }
  EXPECT_NE(found[0][0]->outputs[0].values, found[0][1]->outputs[0].values);
}

// Two slow evaluations ahead, of two processes: what somebody waits for has one of them.
TEST_F(ReferenceTest, WhatIsComputedAheadLeavesAProcessToThoseWhoWait) {
  constexpr char kSlow[] = R"(
#include <unistd.h>
#include "fettle_reference.h"
extern "C" void slow_ref(fettle_ref* ref) {
  fettle_result& y = fettle_output(ref, "y");
  if (fettle_row_count(y) > 1) usleep(1500000);
  for (int64_t i = 0; i < fettle_row_count(y) * fettle_size(ref, "cols"); ++i) y.values[i] = 1;
}
)";
  ReferenceOptions options = Options();
  options.processes = 2;
  auto reference = Reference::Create(Source(kSlow, "slow_ref"), options);
  ASSERT_TRUE(reference.ok()) << reference.status();
  std::atomic<int> done = 0;
  std::vector<std::thread> ahead;
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    ahead.emplace_back([&, seed] {
      EXPECT_TRUE((*reference)->Evaluate(LayernormCase(2, 3), {seed}, /*ahead=*/true).ok());
      ++done;
    });
  }
  // However slow this machine is: the second begins when the first has ended, if not later.
  EXPECT_TRUE((*reference)->Evaluate(LayernormCase(1, 3), {7}).ok());
  EXPECT_LT(done, 2);
  for (std::thread& thread : ahead) thread.join();
}

TEST_F(ReferenceTest, CrashesAndHangsAreTheTasksErrors) {
  struct Bad {
    const char* body;
    const char* says;
  };
  const Bad bads[] = {
      {"volatile int* p = nullptr; *p = 1;", "SIGSEGV"},
      {"(void)fettle_input(ref, \"nope\");", "SIGABRT"},
      {"for (volatile bool go = true; go;) {}", "did not return within"},
      {"(void)ref;", "unset"},
      {"std::exit(3);", "exit code 3"},
  };
  for (const Bad& bad : bads) {
    ReferenceOptions options = Options();
    options.call_limit = std::chrono::seconds(1);
    auto reference = Reference::Create(
        Source(fmt::format("#include \"fettle_reference.h\"\nextern \"C\" void f(fettle_ref* ref) "
                           "{{ (void)ref; {} }}",
                           bad.body),
               "f"),
        options);
    ASSERT_TRUE(reference.ok()) << reference.status();
    const auto expected = (*reference)->Evaluate(LayernormCase(2, 4), {1});
    EXPECT_EQ(expected.status().code(), absl::StatusCode::kFailedPrecondition) << bad.body;
    EXPECT_THAT(std::string(expected.status().message()), ::testing::HasSubstr(bad.says));
    EXPECT_THAT(std::string(expected.status().message()), ::testing::HasSubstr("reference.cc"));
  }
}

TEST_F(ReferenceTest, SourcesThatDoNotCompileOrLackTheFunctionAreRefused) {
  auto broken = Reference::Create(Source("int x = ;", "f"), Options());
  EXPECT_EQ(broken.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(broken.status().message()), ::testing::HasSubstr("reference.cc:1"));
  auto lacking = Reference::Create(Source("extern \"C\" void g() {}", "f"), Options());
  ASSERT_TRUE(lacking.ok());
  const auto expected = (*lacking)->Evaluate(LayernormCase(2, 4), {1});
  EXPECT_THAT(std::string(expected.status().message()), ::testing::HasSubstr("no function 'f'"));
}

TEST_F(ReferenceTest, RunsCustomCheckersWithReferenceResults) {
  ReferenceSource source = Source(kLayernorm, "layernorm_ref");
  source.files["check.cc"] = R"(
#include "fettle_reference.h"
#include <cmath>
extern "C" void check(fettle_check* check) {
  const double* want = check->ref->results[0].values;
  check->worst = 0;
  for (int64_t i = 0; i < check->outputs[0].count; ++i) {
    const double error = std::fabs(check->outputs[0].values[i] - want[i]) / 1e-3;
    check->mean_square += error * error / check->outputs[0].count;
    if (!(error <= check->worst)) { check->worst = error; check->worst_element = i; }
  }
  check->worst_output = 0;
  std::snprintf(check->message, sizeof(check->message), "worst at %ld", (long)check->worst_element);
})";
  source.checkers = {{"check.cc", "check", {"y"}}};
  auto reference = Reference::Create(source, Options());
  ASSERT_TRUE(reference.ok()) << reference.status();
  const BoundCase bound = LayernormCase(4, 16);
  const auto expected = (*reference)->Evaluate(bound, {5});
  ASSERT_TRUE(expected.ok()) << expected.status();
  auto bytes = RoundExpected(bound.tensors[2], (*expected)->outputs[0]);
  auto verdict = (*reference)->Check(bound, {5}, 0, {bytes});
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_LT(verdict->worst, 1);
  EncodeFloat(DType::kF32, 100, bytes.data(), 37);
  verdict = (*reference)->Check(bound, {5}, 0, {bytes});
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_GT(verdict->worst, 1000);
  EXPECT_EQ(verdict->element, 37);
  EXPECT_EQ(verdict->message, "worst at 37");
}

}  // namespace
}  // namespace fettle
