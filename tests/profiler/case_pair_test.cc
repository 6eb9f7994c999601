// SPDX-License-Identifier: Apache-2.0
#include "profiler/case_pair.h"

#include <algorithm>
#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "tests/fakes/host_device.h"

namespace fettle {
namespace {

constexpr std::int64_t kCount = 1000;

BoundTensor Tensor(const std::string& name, Role role) {
  BoundTensor tensor;
  tensor.name = name;
  tensor.role = role;
  tensor.dtype = DType::kI32;
  tensor.shape = {kCount};
  tensor.strides = {1};
  return tensor;
}

BoundArg TensorArg(std::int64_t index) {
  BoundArg arg;
  arg.kind = BoundArg::Kind::kTensor;
  arg.index = index;
  return arg;
}

BoundPlan PlanOf(const std::string& entry) {
  BoundStep step;
  step.entry = entry;
  step.args = {TensorArg(0), TensorArg(1)};
  BoundPlan plan;
  plan.steps.push_back(step);
  return plan;
}

std::vector<std::uint8_t> Numbers(std::int32_t first) {
  std::vector<std::uint8_t> bytes(kCount * 4);
  for (std::int32_t i = 0; i < kCount; ++i) {
    const std::int32_t value = first + i;
    std::memcpy(bytes.data() + 4 * i, &value, 4);
  }
  return bytes;
}

// y = 2 x, by an honest kernel and by several that are not.
// On a device whose memory is read, and on one that takes digests.
class CasePairTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    Register("honest", [](std::int32_t* x, std::int32_t* y) {
      for (int i = 0; i < kCount; ++i) y[i] = 2 * x[i];
    });
    Register("nothing", [](std::int32_t*, std::int32_t*) {});
    Register("half", [](std::int32_t* x, std::int32_t* y) {
      for (int i = 0; i < kCount / 2; ++i) y[i] = 2 * x[i];
    });
    Register("overrun", [](std::int32_t* x, std::int32_t* y) {
      for (int i = 0; i <= kCount; ++i) y[i] = i < kCount ? 2 * x[i] : 7;
    });
    Register("writes_input", [](std::int32_t* x, std::int32_t* y) {
      for (int i = 0; i < kCount; ++i) y[i] = 2 * x[i];
      x[0] = 0;
    });
    // Computes once per address and remembers the answer.
    Register("remembers", [this](std::int32_t* x, std::int32_t* y) {
      std::vector<std::int32_t>& known = remembered_[x];
      if (known.empty()) {
        known.resize(kCount);
        for (int i = 0; i < kCount; ++i) known[static_cast<std::size_t>(i)] = 2 * x[i];
      }
      std::memcpy(y, known.data(), kCount * 4);
    });
    bound_case_.tensors = {Tensor("x", Role::kIn), Tensor("y", Role::kOut)};
  }

  void Register(const std::string& symbol, std::function<void(std::int32_t*, std::int32_t*)> body) {
    symbols_.push_back(symbol);
    device_.Register(symbol, [body = std::move(body)](const LaunchConfig&,
                                                      std::span<const KernelArgument> arguments) {
      body(ArgumentAs<std::int32_t*>(arguments, 0), ArgumentAs<std::int32_t*>(arguments, 1));
      return absl::OkStatus();
    });
  }

  std::shared_ptr<const CaseImages> Images(std::int32_t first) {
    std::vector<std::uint8_t> staging;
    const InputWriter write = [first](std::size_t, std::span<std::uint8_t> dense) {
      const std::vector<std::uint8_t> numbers = Numbers(first);
      std::copy(numbers.begin(), numbers.end(), dense.begin());
      return absl::OkStatus();
    };
    auto images = CaseImages::Make(device_, bound_case_, write, staging);
    EXPECT_TRUE(images.ok()) << images.status();
    return images.value_or(nullptr);
  }
  std::vector<std::vector<std::uint8_t>> Sampled() {
    auto outputs = pair_->sampled().FetchAll();
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return outputs.value_or(std::vector<std::vector<std::uint8_t>>());
  }

  // `samples` interleaved samples of the honest kernel (a) and `candidate` (b).
  void Measure(const std::string& candidate, int samples = 60) {
    auto module = device_.Load("", symbols_);
    ASSERT_TRUE(module.ok()) << module.status();
    module_ = *std::move(module);
    CasePairOptions options;
    options.rotation_bytes = 200'000;
    options.seed = 3;
    options.checks = checks_;
    if (varies_) {
      options.varied = {{/*tensor=*/0, fill_}};
      options.draw = [](const DrawnFill& fill, std::int64_t count, std::uint8_t* bytes) {
        for (std::int64_t i = 0; i < count; ++i) {
          const auto value = static_cast<std::int32_t>((fill.seed >> 34) + i);
          std::memcpy(bytes + 4 * i, &value, 4);
        }
      };
      options.singles = 8;
      options.single = [this](int index) { return Images(SingleFrom(index)); };
    }
    auto pair = CasePair::Create(device_, bound_case_,
                                 {module_.get(), {{"honest", "honest"}}, PlanOf("honest")},
                                 {module_.get(), {{candidate, candidate}}, PlanOf(candidate)},
                                 {Images(1), Images(5000)}, options);
    ASSERT_TRUE(pair.ok()) << pair.status();
    pair_ = *std::move(pair);
    for (int i = 0; i < samples; ++i) {
      const Side side = i % 2 == 0 ? Side::kA : Side::kB;
      const int wanted = side == Side::kB ? pair_->Wanted(/*launches=*/1, /*last=*/false) : -1;
      const int slot = wanted >= 0 ? wanted : i % pair_->slots();
      counts_ = pair_->Counts(slot, 1);
      ASSERT_TRUE(pair_->Enqueue(side, slot).ok());
      ASSERT_TRUE(pair_->AfterSample(side, slot, 1, /*warmup=*/false).ok());
    }
  }

  static std::int32_t SingleFrom(int index) { return -50'000 * (index + 1); }
  // The first of the outputs on the inputs that one call alone had, halved.
  std::int32_t OnSingle() {
    const auto outputs = Sampled();
    EXPECT_EQ(outputs.size(), 2u);
    std::int32_t value = 0;
    if (outputs.size() == 2) std::memcpy(&value, outputs[1].data(), 4);
    return value / 2;
  }
  std::int32_t RightOnSingle() const {
    EXPECT_GE(pair_->kept_single(), 0);
    return SingleFrom(pair_->kept_single());
  }

  std::optional<DrawnFill> fill_;
  bool varies_ = false;
  bool counts_ = true;  // Of the sample that runs.
  HostDevice device_{GetParam()};
  BoundCase bound_case_;
  std::vector<std::string> symbols_;
  std::map<void*, std::vector<std::int32_t>> remembered_;
  bool checks_ = true;
  std::unique_ptr<DeviceModule> module_;
  std::unique_ptr<CasePair> pair_;
};

INSTANTIATE_TEST_SUITE_P(Devices, CasePairTest, ::testing::Values(false, true),
                         [](const auto& param) { return param.param ? "gpu" : "host"; });

TEST_P(CasePairTest, PassesAnHonestKernelAndReturnsOneOfItsOutputs) {
  Measure("honest");
  EXPECT_GE(pair_->slots(), 3);
  EXPECT_GE(pair_->rotated_bytes(), 200'000);
  EXPECT_EQ(pair_->checked_samples(), 30);
  EXPECT_TRUE(pair_->outputs_equal());
  EXPECT_FALSE(pair_->modified_input());
  EXPECT_FALSE(pair_->guard_violation());
  ASSERT_EQ(Sampled().size(), 1u);
  std::int32_t last = 0;
  std::memcpy(&last, Sampled()[0].data() + 4 * (kCount - 1), 4);
  EXPECT_EQ(last, 2 * kCount);  // Of the first input set.
}

TEST_P(CasePairTest, LeavesEverythingAsItIsWhereNothingIsChecked) {
  checks_ = false;
  Measure("writes_input");
  EXPECT_EQ(pair_->checked_samples(), 0);
  EXPECT_FALSE(pair_->modified_input());
  EXPECT_FALSE(pair_->sampled().complete());
}

TEST_P(CasePairTest, LeavesPoisonWhereAKernelWritesNothing) {
  Measure("nothing");
  ASSERT_EQ(Sampled().size(), 1u);
  EXPECT_EQ(Sampled()[0], std::vector<std::uint8_t>(kCount * 4, 0xFF));
  Measure("half");
  EXPECT_EQ(Sampled()[0].back(), 0xFF);
}

TEST_P(CasePairTest, CatchesAnAnswerRememberedByAddress) {
  Measure("remembers");
  EXPECT_FALSE(pair_->outputs_equal());
}

TEST_P(CasePairTest, CatchesAChangedInput) {
  Measure("writes_input");
  EXPECT_EQ(pair_->modified_input(), "x");
}

TEST_P(CasePairTest, CatchesAnOverrun) {
  Measure("overrun");
  ASSERT_TRUE(pair_->guard_violation());
  EXPECT_NE(pair_->guard_violation()->find("y"), std::string::npos);
}

TEST_P(CasePairTest, AllowsDifferentOutputsWhereTheContractDoes) {
  bound_case_.deterministic = false;
  Measure("remembers");
  EXPECT_TRUE(pair_->outputs_equal());
}

// A kernel that keeps answers in a variable of its module finds, in every call, what it held when
// the module was loaded: no call profits from another.
TEST_P(CasePairTest, BringsBackTheVariablesOfTheCandidatesModule) {
  std::int32_t calls = 0, most_seen = 0;
  device_.set_state({reinterpret_cast<std::uint8_t*>(&calls), sizeof calls});
  Register("counts", [&](std::int32_t* x, std::int32_t* y) {
    most_seen = std::max(most_seen, calls++);
    for (int i = 0; i < kCount; ++i) y[i] = 2 * x[i];
  });
  Measure("counts");
  EXPECT_EQ(most_seen, 0);
  // Within one sample too.
  for (int slot = 0; slot < 3; ++slot) ASSERT_TRUE(pair_->Enqueue(Side::kB, slot).ok());
  EXPECT_EQ(most_seen, 0);
}

// The copies take time. The denominator waits for as many, or a candidate with constants at
// namespace scope would seem slower than the same one without.
TEST_P(CasePairTest, BothSidesWaitForTheVariablesOfTheCandidatesModule) {
  std::int32_t calls = 0;
  device_.set_state({reinterpret_cast<std::uint8_t*>(&calls), sizeof calls});
  Measure("honest");
  const auto restored = [&](Side side, int count) {
    const int before = device_.restored();
    for (int i = 0; i < count; ++i) EXPECT_TRUE(pair_->Enqueue(side, i % pair_->slots()).ok());
    const int within = device_.restored() - before;
    EXPECT_TRUE(pair_->AfterSample(side, 0, count, /*warmup=*/false).ok());
    return within;
  };
  for (const int count : {1, 3, 2}) {
    EXPECT_EQ(restored(Side::kA, count), count - 1);
    EXPECT_EQ(restored(Side::kB, count), count - 1);
  }
}

// What was computed for the same inputs is of no use in any sample that counts, however a kernel
// keeps it.
TEST_P(CasePairTest, CountsOnlyWhatNoCallHasSeen) {
  varies_ = true;
  std::set<std::vector<std::int32_t>> seen;
  int counted = 0, repeated = 0, single_again = 0;
  Register("exact", [&](std::int32_t* x, std::int32_t* y) {
    const bool fresh = seen.insert({x, x + kCount}).second;
    single_again += !fresh && x[0] < 0;
    counted += counts_;
    repeated += counts_ && !fresh;
    for (int i = 0; i < kCount; ++i) y[i] = 2 * x[i];
  });
  Measure("exact", 600);
  EXPECT_EQ(repeated, 0);
  EXPECT_EQ(single_again, 0);
  EXPECT_GT(counted, 200);  // Of 300.
  EXPECT_GT(pair_->checked_samples(), 30);
  EXPECT_TRUE(pair_->outputs_equal());
  EXPECT_FALSE(pair_->modified_input());
  EXPECT_EQ(OnSingle(), RightOnSingle());
}

// Neither is what was computed for one row of another input of any use: of rows of ten numbers,
// hardly one is as any other was.
TEST_P(CasePairTest, PutsTensorsTogetherOfRowsThatWereNotThere) {
  varies_ = true;
  bound_case_.tensors[0].shape = {kCount / 10, 10};
  bound_case_.tensors[0].strides = {10, 1};
  std::set<std::vector<std::int32_t>> seen;
  int rows = 0, repeated = 0;
  Register("rows", [&](std::int32_t* x, std::int32_t* y) {
    for (int i = 0; i < kCount; ++i) y[i] = 2 * x[i];
    for (int i = 0; i < kCount; i += 10) {
      const bool fresh = seen.insert({x + i, x + i + 10}).second;
      rows += counts_;
      repeated += counts_ && !fresh;
    }
  });
  fill_ = DrawnFill();
  Measure("rows", 100);
  EXPECT_EQ(repeated, 0);
  EXPECT_GT(rows, 2000);
}

// Right on inputs that come again, where somebody looks, and on nothing else.
TEST_P(CasePairTest, WhatIsRightOnInputsThatRepeatAloneIsWrongOnOthers) {
  varies_ = true;
  Register("lazy", [](std::int32_t* x, std::int32_t* y) {
    const bool comes_again = x[0] == 1;
    for (int i = 0; i < kCount; ++i) y[i] = comes_again ? 2 * x[i] : 0;
  });
  Measure("lazy", 600);
  EXPECT_TRUE(pair_->outputs_equal());
  EXPECT_NE(OnSingle(), RightOnSingle());
}

TEST_P(CasePairTest, NoTwoCallsOfASampleHaveTheSameInputs) {
  varies_ = true;
  Measure("honest");
  EXPECT_TRUE(pair_->resets_between_calls());
}

TEST_P(CasePairTest, PoisonsTheWorkspaceBetweenSamples) {
  BoundPlan plan = PlanOf("keeps");
  plan.workspace.push_back({.name = "keep", .dtype = DType::kI32, .count = kCount});
  plan.steps[0].args.push_back(TensorArg(0));
  plan.steps[0].args[2].kind = BoundArg::Kind::kWorkspace;
  int found = 0;
  device_.Register("keeps", [&](const LaunchConfig&, std::span<const KernelArgument> arguments) {
    auto* x = ArgumentAs<std::int32_t*>(arguments, 0);
    auto* y = ArgumentAs<std::int32_t*>(arguments, 1);
    auto* keep = ArgumentAs<std::int32_t*>(arguments, 2);
    found += keep[0] != -1;
    for (int i = 0; i < kCount; ++i) keep[i] = y[i] = 2 * x[i];
    return absl::OkStatus();
  });
  symbols_.push_back("keeps");
  auto module = device_.Load("", symbols_);
  ASSERT_TRUE(module.ok());
  auto pair = CasePair::Create(
      device_, bound_case_, {module->get(), {{"honest", "honest"}}, PlanOf("honest")},
      {module->get(), {{"keeps", "keeps"}}, plan}, {Images(1), Images(2)}, {.cold = false});
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_TRUE((*pair)->resets_between_calls());  // One slot serves one call of a sample.
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE((*pair)->Enqueue(Side::kB, 0).ok());
    ASSERT_TRUE((*pair)->AfterSample(Side::kB, 0, 1, /*warmup=*/false).ok());
  }
  EXPECT_EQ(found, 0);
}

TEST_P(CasePairTest, KeepsWorkspacesOfBothSidesApart) {
  BoundPlan plan = PlanOf("honest");
  BoundWorkspace scratch{.name = "scratch", .dtype = DType::kI32, .count = kCount, .zero = true};
  plan.workspace.push_back(scratch);
  plan.steps[0].args[1].kind = BoundArg::Kind::kWorkspace;  // Writes its scratch only.
  plan.steps[0].args[1].index = 0;
  auto module = device_.Load("", symbols_);
  ASSERT_TRUE(module.ok());
  std::set<std::uint64_t> written;
  device_.Register("honest",
                   [&written](const LaunchConfig&, std::span<const KernelArgument> arguments) {
                     written.insert(ArgumentAs<std::uint64_t>(arguments, 1));
                     return absl::OkStatus();
                   });
  CasePairOptions options;
  options.cold = false;
  auto pair = CasePair::Create(device_, bound_case_, {module->get(), {{"honest", "honest"}}, plan},
                               {module->get(), {{"honest", "honest"}}, plan},
                               {Images(1), Images(2)}, options);
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_EQ((*pair)->slots(), 1);
  ASSERT_TRUE((*pair)->Enqueue(Side::kA, 0).ok());
  ASSERT_TRUE((*pair)->Enqueue(Side::kB, 0).ok());
  EXPECT_EQ(written.size(), 2u);
}

}  // namespace
}  // namespace fettle
