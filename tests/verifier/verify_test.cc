// SPDX-License-Identifier: Apache-2.0
#include "verifier/verify.h"

#include <cmath>
#include <cstring>
#include <set>

#include "tests/fakes/host_device.h"
#include "tests/fakes/in_process_runner.h"
#include "tests/verifier/case_fixtures.h"
#include "verifier/failure_class.h"
#include "verifier/input_choice.h"

namespace fettle {
namespace {

using Args = std::span<const KernelArgument>;

// y[r] = sum over c of x[r][c] * w[c]; z[c] = 2 w[c].
constexpr const char* kReference = R"(
#include "fettle_reference.h"
#include <cmath>
extern "C" void f(fettle_ref* ref) {
  const fettle_tensor& x = fettle_input(ref, "x");
  const fettle_tensor& w = fettle_input(ref, "w");
  const int64_t cols = fettle_size(ref, "cols");
  fettle_result& y = fettle_output(ref, "y");
  for (int64_t i = 0; i < fettle_row_count(y); ++i) {
    const double* row = x.values + fettle_row(y, i) * cols;
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < cols; ++c) {
      sum += row[c] * w.values[c];
      squares += row[c] * row[c] * w.values[c] * w.values[c];
    }
    y.values[i] = sum;
    if (y.magnitude) y.magnitude[i] = std::sqrt(squares);
    if (y.length) y.length[i] = static_cast<double>(cols > 0 ? cols : 1);
  }
  fettle_result& z = fettle_output(ref, "z");
  for (int64_t i = 0; i < fettle_row_count(z); ++i) z.values[i] = 2 * w.values[fettle_row(z, i)];
}
)";

struct Problem {
  float* x;
  float* w;
  float* y;
  float* z;
  std::int64_t rows, cols;
};

void Honest(const Problem& p) {
  for (std::int64_t r = 0; r < p.rows; ++r) {
    float sum = 0;
    for (std::int64_t c = 0; c < p.cols; ++c) sum += p.x[r * p.cols + c] * p.w[c];
    p.y[r] = sum;
  }
  for (std::int64_t c = 0; c < p.cols; ++c) p.z[c] = 2 * p.w[c];
}

// On a device whose memory the worker reads, and on one that takes digests and leaves outputs.
class VerifyTest : public ::testing::TestWithParam<bool> {
 protected:
  static void SetUpTestSuite() {
    ReferenceSource source;
    source.task_digest = "gemv";
    source.reference = {"reference.cc", "f", {}};
    source.files["reference.cc"] = kReference;
    ReferenceOptions options;
    options.start = PlainReferenceStarter(FETTLE_REFERENCE_HOST);
    auto made = Reference::Create(source, options);
    ASSERT_TRUE(made.ok()) << made.status();
    reference_ = made->release();
  }
  static void TearDownTestSuite() { delete reference_; }

  VerifyTest() {
    cases_ = {Case("checked/0", 33, 64), Case("checked/1", 5, 7), Case("checked/2", 2048, 16)};
    Register("honest", Honest);
  }
  void Register(const std::string& symbol, std::function<void(const Problem&)> body) {
    device_.Register(symbol, [body](const LaunchConfig&, Args args) {
      body({ArgumentAs<float*>(args, 0), ArgumentAs<float*>(args, 1), ArgumentAs<float*>(args, 2),
            ArgumentAs<float*>(args, 3), ArgumentAs<std::int64_t>(args, 4),
            ArgumentAs<std::int64_t>(args, 5)});
      return absl::OkStatus();
    });
  }
  static BoundCase Case(std::string label, std::int64_t rows, std::int64_t cols) {
    BoundCase one;
    one.label = std::move(label);
    one.dims = {{"rows", false, {rows}}, {"cols", false, {cols}}};
    one.tensors = {MakeTensor("x", Role::kIn, DType::kF32, {rows, cols}),
                   MakeTensor("w", Role::kIn, DType::kF32, {cols}),
                   MakeTensor("y", Role::kOut, DType::kF32, {rows}),
                   MakeTensor("z", Role::kOut, DType::kF32, {cols})};
    one.tolerances = {AutoTolerance("y", cols), AutoTolerance("z")};
    one.linear = true;
    return one;
  }
  RunnableKernel Kernel(const std::string& symbol, const BoundCase& bound_case) {
    const auto module = runner_.LoadModule("", {symbol});
    EXPECT_TRUE(module.ok()) << module.status();
    return OneLaunch(
        module.value_or(0), symbol,
        {TensorArg(0), TensorArg(1), TensorArg(2), TensorArg(3),
         ValueArg(bound_case.dims[0].values[0]), ValueArg(bound_case.dims[1].values[0])});
  }
  VerificationReport Verify(const std::string& symbol) {
    std::vector<CaseUnderTest> cases;
    for (const BoundCase& bound_case : cases_) {
      CaseUnderTest one;
      one.bound_case = bound_case;
      one.kernel = Kernel(symbol, bound_case);
      one.baseline = Kernel("honest", bound_case);
      one.baseline_digest = "honest";
      cases.push_back(std::move(one));
    }
    Verifier verifier(runner_, *reference_);
    VerifyOptions options;
    options.seed = seed_;
    options.judged = judged_.get();
    options.large_elements = large_elements_;
    options.sets_on_large = sets_on_large_;
    options.first_look = first_look_;
    auto report = verifier.Verify(cases, options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.value_or(VerificationReport());
  }
  void ExpectFails(const std::string& symbol, const std::string& reason,
                   Verdict verdict = Verdict::kIncorrect) {
    const VerificationReport report = Verify(symbol);
    EXPECT_FALSE(report.passed) << symbol;
    EXPECT_EQ(report.failure.reason_code, reason) << report.failure.message;
    EXPECT_EQ(report.failure.verdict, verdict);
  }

  static Reference* reference_;
  HostDevice device_{GetParam()};
  InProcessRunner runner_{device_};
  std::unique_ptr<JudgementCache> judged_ = std::make_unique<JudgementCache>();
  std::int64_t large_elements_ = VerifyOptions{}.large_elements;
  bool sets_on_large_ = false, first_look_ = false;
  std::uint64_t seed_ = 42;
  std::vector<BoundCase> cases_;
};
Reference* VerifyTest::reference_ = nullptr;
INSTANTIATE_TEST_SUITE_P(Devices, VerifyTest, ::testing::Values(false, true),
                         [](const auto& param) { return param.param ? "gpu" : "host"; });

TEST(InputChoiceTest, SmallCasesChangeInPlaceBothWays) {
  BoundCase one;
  one.tensors = {MakeTensor("x", Role::kIn, DType::kF32, {3, 257}),
                 MakeTensor("y", Role::kOut, DType::kF32, {3})};
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto changes = ChangesInPlace(one, {seed}, /*large=*/false);
    ASSERT_EQ(changes.size(), 2u);
    for (const InputSpec& change : changes) {
      EXPECT_EQ(change.flip_tensor, 0);
      EXPECT_LT(change.flip_element, 771);
    }
    EXPECT_NE(changes[0].flip_element % 2, changes[1].flip_element % 2);
  }
}

TEST_P(VerifyTest, HonestKernelPassesEveryCheck) {
  const VerificationReport report = Verify("honest");
  ASSERT_TRUE(report.passed) << report.failure.message;
  ASSERT_EQ(report.cases.size(), 3u);
  EXPECT_THAT(report.cases[0].checks,
              ::testing::IsSupersetOf({"guards", "inputs", "poison", "bound", "repeats",
                                       "error_budget", "in_place_change", "exact_integers",
                                       "rotated_order", "inputs:heavy_tail"}));
  for (const CaseReport& one : report.cases) {
    EXPECT_THAT(one.checks, ::testing::Contains("other_addresses").Times(1));
    EXPECT_THAT(one.checks, ::testing::Contains("page_end").Times(one.outputs[0].compared == 2048));
  }
  EXPECT_LT(report.cases[0].outputs[0].worst, 1);
  EXPECT_EQ(report.cases[2].outputs[0].compared, 2048);
}

// Where a sum itself overflows, an honest one may be NaN.
TEST_P(VerifyTest, AsksNoKernelToOverflowAsTheBaselineDoes) {
  Register("kahan", [](const Problem& p) {
    for (std::int64_t r = 0; r < p.rows; ++r) {
      volatile float sum = 0, lost = 0;
      for (std::int64_t c = 0; c < p.cols; ++c) {
        const float term = p.x[r * p.cols + c] * p.w[c] - lost;
        const float next = sum + term;
        lost = next - sum - term;
        sum = next;
      }
      p.y[r] = sum;
    }
    for (std::int64_t c = 0; c < p.cols; ++c) p.z[c] = 2 * p.w[c];
  });
  cases_ = {Case("checked/0", 3, 40)};
  int left_out = 0;
  for (seed_ = 1; seed_ <= 24; ++seed_) {
    const VerificationReport report = Verify("kahan");
    EXPECT_TRUE(report.passed) << "seed " << seed_ << ": " << report.failure.message;
    for (const std::string& warning : report.warnings) {
      left_out += warning.find("large_values") != std::string::npos;
    }
  }
  EXPECT_GT(left_out, 0);
}

TEST_P(VerifyTest, JudgesEqualBytesOnceOnADeviceThatTakesDigests) {
  ASSERT_TRUE(Verify("honest").passed);
  const std::size_t first = runner_.requests().size();
  const int fetched = runner_.fetches();
  EXPECT_EQ(fetched > 0, GetParam());
  const VerificationReport again = Verify("honest");
  ASSERT_TRUE(again.passed) << again.failure.message;
  EXPECT_EQ(again.cases[0].outputs.size(), 2u);
  EXPECT_EQ(runner_.fetches(), fetched);
  // The baseline ran for the first one only.
  EXPECT_EQ(runner_.requests().size() - first < first, GetParam());
  // What was judged right does not make anything else right.
  Register("wrong", [](const Problem& p) {
    Honest(p);
    p.y[p.rows - 1] += 1;
  });
  ExpectFails("wrong", "tolerance");
}

TEST_P(VerifyTest, AFirstLookDropsWhatIsPlainlyWrongInFewCalls) {
  ASSERT_TRUE(Verify("honest").passed);
  const std::size_t whole = runner_.requests().size();
  first_look_ = true;
  const VerificationReport looked = Verify("honest");
  EXPECT_TRUE(looked.passed) << looked.failure.message;
  EXPECT_EQ(looked.cases.size(), cases_.size());
  ASSERT_EQ(looked.warnings.size(), 1u);
  EXPECT_NE(looked.warnings[0].find("first look"), std::string::npos);
  EXPECT_LE(runner_.requests().size() - whole, 4 * cases_.size());
  EXPECT_LT(4 * (runner_.requests().size() - whole), whole);
  Register("wrong", [](const Problem& p) {
    Honest(p);
    p.y[p.rows - 1] += 1;
  });
  ExpectFails("wrong", "tolerance");
  Register("nothing", [](const Problem&) {});
  ExpectFails("nothing", "poison_survived");
}

// Found on a GPU, where large timed cases come first: the turn of NaN fell on a case of one
// element.
TEST_P(VerifyTest, TriesNonFiniteInputsOnEveryCaseThatCanShowThem) {
  for (BoundCase& one : cases_) {
    for (BoundTensor& tensor : one.tensors) tensor.nonfinite = true;
  }
  cases_.insert(cases_.begin(), Case("timed/0", 1, 1));
  cases_.insert(cases_.begin() + 1, Case("timed/1", 1, 2));
  const VerificationReport report = Verify("honest");
  ASSERT_TRUE(report.passed) << report.failure.message;
  for (const CaseReport& one : report.cases) {
    const bool tells = one.case_label.starts_with("checked/") && one.case_label != "checked/1";
    EXPECT_EQ(::testing::Value(one.checks, ::testing::Contains("inputs:nonfinite")), tells)
        << one.case_label;
  }
  Register("drops_nan", [](const Problem& p) {
    Honest(p);
    for (std::int64_t r = 0; r < p.rows; ++r) {
      if (std::isnan(p.y[r])) p.y[r] = 0;
    }
  });
  ExpectFails("drops_nan", "class_mismatch");
  Register("clamps", [](const Problem& p) {
    Honest(p);
    for (std::int64_t r = 0; r < p.rows; ++r) {
      if (std::isinf(p.y[r])) p.y[r] = std::copysign(3e38f, p.y[r]);
    }
    for (std::int64_t c = 0; c < p.cols; ++c) {
      if (std::isinf(p.z[c])) p.z[c] = std::copysign(3e38f, p.z[c]);
    }
  });
  ExpectFails("clamps", "class_mismatch");
}

// Found on a GPU: most cases were large there, the turn of edge values never came, and a kernel
// that flushes denormals was accepted.
TEST_P(VerifyTest, EveryInputSetHasItsTurnHoweverFewCasesThereAre) {
  cases_ = {Case("timed/0", 4096, 64), Case("checked/0", 33, 64), Case("checked/1", 1, 1)};
  large_elements_ = 100'000;
  const VerificationReport report = Verify("honest");
  ASSERT_TRUE(report.passed) << report.failure.message;
  for (const InputSet set :
       {InputSet::kHeavyTail, InputSet::kScaleHuge, InputSet::kAllNegative, InputSet::kRowScales,
        InputSet::kTies, InputSet::kScaleTiny, InputSet::kOneHot, InputSet::kSorted,
        InputSet::kAllEqual, InputSet::kCheckerboard, InputSet::kScaleLarge, InputSet::kReversed,
        InputSet::kScaleSmall, InputSet::kOffset, InputSet::kLowRank, InputSet::kEdgeValues,
        InputSet::kAllZero}) {
    const std::string name = "inputs:" + std::string(InputSetName(set));
    EXPECT_THAT(report.cases[1].checks, ::testing::Contains(name).Times(1));
  }
  // The baseline's own squares overflow.
  EXPECT_THAT(report.warnings, ::testing::Contains(::testing::HasSubstr("large_values")));
  // Right but for the smallest numbers, which no other set holds.
  Register("flushes", [](const Problem& p) {
    Honest(p);
    for (std::int64_t c = 0; c < p.cols; ++c) {
      if (std::fabs(p.z[c]) < 1e-37f) p.z[c] = 0;
    }
  });
  ExpectFails("flushes", "tolerance");
}

// Found by trying to win wrongly: what is right on the declared inputs only, and only where the
// other sets were not tried for the size.
TEST_P(VerifyTest, LargeCasesTakeASetInAConfirmation) {
  large_elements_ = 5'000;  // Of the last case alone.
  for (const bool confirms : {false, true}) {
    sets_on_large_ = confirms;
    const VerificationReport report = Verify("honest");
    ASSERT_TRUE(report.passed) << report.failure.message;
    int sets = 0;
    for (const std::string& check : report.cases[2].checks) sets += check.starts_with("inputs:");
    EXPECT_EQ(sets, confirms ? 1 : 0);
  }
  Register("declared_only", [](const Problem& p) {
    Honest(p);
    double most = 0;
    for (std::int64_t i = 0; i < p.rows * p.cols; ++i) {
      most = std::max(most, std::fabs(static_cast<double>(p.x[i])));
    }
    if (p.rows == 2048 && most > 20) p.y[0] += 1 + std::fabs(p.y[0]);
  });
  EXPECT_FALSE(Verify("declared_only").passed);
  sets_on_large_ = false;
  EXPECT_TRUE(Verify("declared_only").passed);
}

// What is judged beside the device's time is computed before it: nothing is left for a reference to
// do while a device waits.
TEST_P(VerifyTest, EveryInputIsKnownAhead) {
  for (BoundCase& one : cases_) one.tensors[0].nonfinite = true;
  for (const std::int64_t large : {VerifyOptions{}.large_elements, std::int64_t{2000}}) {
    large_elements_ = large;
    sets_on_large_ = large == 2000;
    const std::size_t before = runner_.requests().size();
    ASSERT_TRUE(Verify("honest").passed);
    VerifyOptions options;
    options.seed = 42;
    options.large_elements = large;
    options.sets_on_large = sets_on_large_;
    std::set<std::string> ahead;
    const auto key = [](const BoundCase& one, std::uint64_t seed, InputSet set, std::int64_t tensor,
                        std::int64_t element) {
      return fmt::format("{} {} {} {} {}", one.label, seed, InputSetName(set), tensor,
                         tensor < 0 ? 0 : element);
    };
    for (const auto& [index, spec] : SpecsAhead(cases_, {true, true, true}, options)) {
      ahead.insert(key(cases_[index], spec.seed, spec.set, spec.flip_tensor, spec.flip_element));
    }
    ASSERT_GT(runner_.requests().size(), before);
    for (std::size_t i = before; i < runner_.requests().size(); ++i) {
      const RunRequest& one = runner_.requests()[i];
      const std::string run =
          key(one.bound_case, one.input_seed, one.inputs, one.flip_tensor, one.flip_element);
      EXPECT_TRUE(ahead.contains(run)) << run;
    }
    judged_ = std::make_unique<JudgementCache>();
  }
  EXPECT_TRUE(SpecsAhead(cases_, {false, false, false}, {}).empty());
}

TEST_P(VerifyTest, BlockedSummationPasses) {
  Register("blocked", [](const Problem& p) {
    Honest(p);
    for (std::int64_t r = 0; r < p.rows; ++r) {
      float parts[4] = {};
      for (std::int64_t c = 0; c < p.cols; ++c) parts[c % 4] += p.x[r * p.cols + c] * p.w[c];
      p.y[r] = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
  });
  const VerificationReport report = Verify("blocked");
  EXPECT_TRUE(report.passed) << report.failure.message;
}

TEST_P(VerifyTest, NoOpFailsOnPoison) {
  Register("noop", [](const Problem&) {});
  ExpectFails("noop", "poison_survived");
}

TEST_P(VerifyTest, TailNotWrittenFailsOnPoison) {
  Register("tail", [](const Problem& p) {
    Problem q = p;
    q.rows = p.rows / 4 * 4;
    Honest(q);
  });
  ExpectFails("tail", "poison_survived");
}

TEST_P(VerifyTest, SecondaryOutputUntouchedFailsOnPoison) {
  Register("secondary", [](const Problem& p) {
    Problem q = p;
    std::vector<float> z(static_cast<std::size_t>(p.cols));
    q.z = z.data();
    Honest(q);
  });
  ExpectFails("secondary", "poison_survived");
}

TEST_P(VerifyTest, ModifiedInputFails) {
  Register("destroys", [](const Problem& p) {
    Honest(p);
    p.w[0] = 0;
  });
  ExpectFails("destroys", "input_modified");
}

TEST_P(VerifyTest, ZeroedInputsAndOutputsFail) {
  Register("zero_all", [](const Problem& p) {
    for (std::int64_t i = 0; i < p.rows * p.cols; ++i) p.x[i] = 0;
    for (std::int64_t c = 0; c < p.cols; ++c) p.w[c] = p.z[c] = 0;
    for (std::int64_t r = 0; r < p.rows; ++r) p.y[r] = 0;
  });
  ExpectFails("zero_all", "input_modified");
}

TEST_P(VerifyTest, GuardOverwrittenFails) {
  Register("overrun", [](const Problem& p) {
    Honest(p);
    p.y[p.rows] = 1;
  });
  ExpectFails("overrun", "guard_overwritten");
}

TEST_P(VerifyTest, OneNaNFailsOnClass) {
  Register("nan", [](const Problem& p) {
    Honest(p);
    p.y[p.rows / 2] = std::nanf("");
  });
  ExpectFails("nan", "class_mismatch");
}

TEST_P(VerifyTest, NondeterministicFailsUnlessDeclared) {
  int calls = 0;
  Register("wobble", [&calls](const Problem& p) {
    Honest(p);
    const float wobble = ++calls % 2 ? 1 + 0x1p-23f : 1 - 0x1p-23f;
    for (std::int64_t r = 0; r < p.rows; ++r) p.y[r] *= wobble;
  });
  ExpectFails("wobble", "nondeterministic");
  for (BoundCase& bound_case : cases_) {
    bound_case.deterministic = false;
    bound_case.linear = false;
  }
  const VerificationReport report = Verify("wobble");
  EXPECT_TRUE(report.passed) << report.failure.message;
  EXPECT_THAT(report.cases[0].checks, ::testing::Contains("spread"));
}

TEST_P(VerifyTest, ResultCachedByAddressFailsAfterAChangeInPlace) {
  std::map<const float*, std::vector<float>> memo;
  Register("memo", [&memo](const Problem& p) {
    auto& kept = memo[p.x];
    if (kept.size() == static_cast<std::size_t>(p.rows + p.cols)) {
      std::copy_n(kept.begin(), p.rows, p.y);
      std::copy_n(kept.begin() + p.rows, p.cols, p.z);
      return;
    }
    Honest(p);
    kept.assign(p.y, p.y + p.rows);
    kept.insert(kept.end(), p.z, p.z + p.cols);
  });
  ExpectFails("memo", "stale_result");
}

// In large cases too a single element changes, which a fingerprint of a few does not see.
TEST_P(VerifyTest, ResultCachedByAFingerprintFailsInALargeCase) {
  large_elements_ = 1;
  std::map<std::vector<float>, std::vector<float>> memo;
  Register("fingerprint", [&memo](const Problem& p) {
    const std::vector<float> key = {p.x[0], p.x[p.rows * p.cols - 1], p.w[0], p.w[p.cols - 1],
                                    static_cast<float>(p.rows)};
    auto& kept = memo[key];
    if (kept.empty()) {
      Honest(p);
      kept.assign(p.y, p.y + p.rows);
      kept.insert(kept.end(), p.z, p.z + p.cols);
    }
    std::copy_n(kept.begin(), p.rows, p.y);
    std::copy_n(kept.begin() + p.rows, p.cols, p.z);
  });
  ExpectFails("fingerprint", "stale_result");
}

TEST_P(VerifyTest, AWrongElementIsNamedWithWhatWasExpected) {
  Register("off", [](const Problem& p) {
    Honest(p);
    p.y[p.rows - 1] = 1e6F;
  });
  const VerificationReport report = Verify("off");
  ASSERT_FALSE(report.passed);
  const nlohmann::json& evidence = report.failure.evidence;
  EXPECT_EQ(evidence["output"], "y");
  EXPECT_EQ(evidence["index"], 32);
  EXPECT_EQ(evidence["actual"], 1e6);
  EXPECT_LT(evidence["expected"].get<double>(), 1e5);
  EXPECT_EQ(evidence["mismatches"], 1);
}

TEST_P(VerifyTest, HardCodedSizesFail) {
  Register("sized", [](const Problem& p) {
    Problem q = p;
    if (p.cols != 64 && p.cols != 16) q.cols = p.cols - 1;  // Right for the usual sizes only.
    Honest(q);
    for (std::int64_t c = q.cols; c < p.cols; ++c) p.z[c] = 2 * p.w[c];
  });
  const VerificationReport report = Verify("sized");
  EXPECT_FALSE(report.passed);
  EXPECT_EQ(report.failure.case_label, "checked/1");
}

TEST_P(VerifyTest, LeftoverStateFailsInRotatedOrder) {
  std::int64_t largest = 0;
  int calls = 0;
  Register("leftover", [&](const Problem& p) {
    Honest(p);
    if (++calls > 27 && p.rows < largest) p.y[0] += 1;  // Only late, only after something larger.
    largest = std::max(largest, p.rows);
  });
  std::vector<CaseUnderTest> cases;
  for (const BoundCase& bound_case : cases_) {
    cases.push_back({bound_case, true, Kernel("leftover", bound_case), std::nullopt});
  }
  Verifier verifier(runner_, *reference_);
  VerifyOptions options;
  const auto report = verifier.Verify(cases, options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->passed);
  EXPECT_EQ(report->failure.reason_code, "order_dependent") << calls;
}

TEST_P(VerifyTest, PrecisionDowngradeFailsOnTheBudget) {
  for (BoundCase& bound_case : cases_) {
    bound_case.linear = false;
    bound_case.tolerances[0].kind = BoundTolerance::Kind::kRelative;
    bound_case.tolerances[0].rtol = bound_case.tolerances[0].atol = 0.05;  // A careless task.
  }
  Register("half", [](const Problem& p) {
    Honest(p);
    for (std::int64_t r = 0; r < p.rows; ++r) {
      double sum = 0;
      for (std::int64_t c = 0; c < p.cols; ++c) {
        sum += RoundTo(DType::kF16, p.x[r * p.cols + c]) * RoundTo(DType::kF16, p.w[c]);
      }
      p.y[r] = static_cast<float>(sum);
    }
  });
  ExpectFails("half", "error_budget");
}

TEST_P(VerifyTest, SwappedRowsFailOnExactIntegers) {
  for (BoundCase& bound_case : cases_) {
    bound_case.tolerances[0].kind = BoundTolerance::Kind::kRelative;
    bound_case.tolerances[0].atol = 1e6;  // Hides everything but the probe.
  }
  Register("swapped", [](const Problem& p) {
    Honest(p);
    std::swap(p.y[0], p.y[1]);
    std::swap(p.y[2], p.y[3]);
  });
  for (BoundCase& bound_case : cases_)
    bound_case.tensors[0].shape[0] = bound_case.dims[0].values[0];
  const VerificationReport report = Verify("swapped");
  EXPECT_FALSE(report.passed);
}

TEST_P(VerifyTest, SniffingAPrefixFails) {
  Register("sniffs", [](const Problem& p) {
    float largest = 0;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(8, p.cols); ++i) {
      largest = std::max(largest, std::fabs(p.x[i]));
    }
    Honest(p);
    if (largest > 100) return;
    for (std::int64_t r = 0; r < p.rows; ++r) {  // Drops terms that are "always" small.
      float sum = 0;
      for (std::int64_t c = 0; c < p.cols; ++c) {
        sum += std::min(6.f, std::max(-6.f, p.x[r * p.cols + c])) * p.w[c];
      }
      p.y[r] = sum;
    }
  });
  const VerificationReport report = Verify("sniffs");
  EXPECT_FALSE(report.passed);
}

TEST_P(VerifyTest, DeviceErrorsBecomeVerdicts) {
  struct Kind {
    absl::StatusCode code;
    Verdict verdict;
    const char* reason;
  };
  for (const Kind& kind :
       {Kind{absl::StatusCode::kAborted, Verdict::kCrashed, "crashed"},
        Kind{absl::StatusCode::kDeadlineExceeded, Verdict::kTimeout, "launch_deadline"},
        Kind{absl::StatusCode::kInvalidArgument, Verdict::kLaunchError, "launch_refused"}}) {
    device_.Register("fails", [&kind](const LaunchConfig&, Args) {
      return absl::Status(kind.code, "DEVICE_ERROR (700): it failed");
    });
    ExpectFails("fails", kind.reason, kind.verdict);
  }
  device_.Register("fails",
                   [](const LaunchConfig&, Args) { return absl::UnavailableError("gone"); });
  Verifier verifier(runner_, *reference_);
  const auto report =
      verifier.Verify({{cases_[0], true, Kernel("fails", cases_[0]), std::nullopt}}, {});
  EXPECT_EQ(report.status().code(), absl::StatusCode::kUnavailable);
}

TEST_P(VerifyTest, HeldOutFailuresGiveTheirClassOnly) {
  cases_.push_back(Case("held_out/0", 12, 61));
  cases_.back().set = CaseSet::kHeldOut;
  cases_[1] = Case("checked/1", 5, 8);
  Register("quads", [](const Problem& p) {
    Problem q = p;
    q.cols = p.cols / 4 * 4;
    Honest(p);
    for (std::int64_t r = 0; r < p.rows; ++r) {
      for (std::int64_t c = q.cols; c < p.cols; ++c) p.y[r] -= p.x[r * p.cols + c] * p.w[c];
    }
  });
  const VerificationReport report = Verify("quads");
  ASSERT_FALSE(report.passed);
  EXPECT_EQ(report.failure.case_label, "held_out");
  EXPECT_THAT(report.failure.message, ::testing::HasSubstr("cols not a multiple of 2"));
  const std::string text = ToJson(report).dump();
  EXPECT_EQ(text.find("cols=61"), std::string::npos);
  EXPECT_TRUE(report.cases[3].describe.empty());
  for (const OutputErrors& errors : report.cases[3].outputs) {
    EXPECT_EQ(errors.compared, 0);
    EXPECT_EQ(errors.first_index, -1);
  }
  EXPECT_EQ(text.find("held_out/0"), std::string::npos);
  EXPECT_EQ(text.find("rows=12"), std::string::npos);
}

TEST_P(VerifyTest, UnsupportedCasesAreReported) {
  Verifier verifier(runner_, *reference_);
  std::vector<CaseUnderTest> cases = {{cases_[0], true, Kernel("honest", cases_[0]), std::nullopt},
                                      {cases_[1], false, {}, std::nullopt}};
  const auto report = verifier.Verify(cases, {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->passed);
  EXPECT_TRUE(report->cases[1].unsupported);
}

TEST_P(VerifyTest, CheckModeFindingsFail) {
  Register("found", [this](const Problem& p) {
    Honest(p);
    device_.AddFinding({"race.block", true, "two threads write s[3]", "kernel.cu", 17});
  });
  Verifier verifier(runner_, *reference_);
  VerificationReport report;
  report.passed = true;
  ASSERT_TRUE(verifier
                  .CheckMode({{cases_[0], true, Kernel("found", cases_[0]), std::nullopt}},
                             "warp 32", {}, &report)
                  .ok());
  EXPECT_FALSE(report.passed);
  EXPECT_EQ(report.failure.reason_code, "check_mode");
  EXPECT_THAT(report.failure.message, ::testing::HasSubstr("kernel.cu:17"));
}

TEST(FailureClassTest, NamesWhatDistinguishes) {
  const auto make = [](std::int64_t rows, std::int64_t cols) {
    BoundCase one;
    one.dims = {{"rows", false, {rows}}, {"cols", false, {cols}}};
    return one;
  };
  EXPECT_EQ(FailureClass(make(8, 30), {make(4, 64), make(16, 32)}), "cols not a multiple of 4");
  EXPECT_EQ(FailureClass(make(0, 32), {make(4, 64), make(16, 32)}), "rows = 0");
  EXPECT_EQ(FailureClass(make(3, 4096), {make(3, 256), make(1, 32)}),
            "cols larger than in every case that passed");
  EXPECT_EQ(FailureClass(make(3, 5), {make(3, 5)}), "no single dim or dtype explains it");
}

}  // namespace
}  // namespace fettle
