// SPDX-License-Identifier: Apache-2.0
#include "verifier/case_runner.h"

#include <cstring>

#include "core/digest.h"
#include "tests/fakes/host_device.h"
#include "tests/fakes/in_process_runner.h"
#include "tests/verifier/case_fixtures.h"
#include "verifier/inputs.h"

namespace fettle {
namespace {

using Args = std::span<const KernelArgument>;

// y = 2 x over n floats.
class CaseRunnerTest : public ::testing::Test {
 protected:
  CaseRunnerTest() {
    case_.tensors = {MakeTensor("x", Role::kIn, DType::kF32, {64}),
                     MakeTensor("y", Role::kOut, DType::kF32, {64})};
    case_.tolerances = {AutoTolerance("y")};
    device_.Register("double", [](const LaunchConfig&, Args args) {
      const auto* x = ArgumentAs<const float*>(args, 0);
      auto* y = ArgumentAs<float*>(args, 1);
      for (std::int64_t i = 0; i < ArgumentAs<std::int64_t>(args, 2); ++i) y[i] = 2 * x[i];
      return absl::OkStatus();
    });
  }
  void Register(const std::string& symbol,
                std::function<void(float* x, float* y, std::int64_t n)> body) {
    device_.Register(symbol, [body](const LaunchConfig&, Args args) {
      body(ArgumentAs<float*>(args, 0), ArgumentAs<float*>(args, 1),
           ArgumentAs<std::int64_t>(args, 2));
      return absl::OkStatus();
    });
  }
  RunRequest Request(const std::string& symbol) {
    RunRequest request;
    request.bound_case = case_;
    const auto module = runner_.LoadModule("", {symbol});
    EXPECT_TRUE(module.ok()) << module.status();
    request.kernel = OneLaunch(module.value_or(0), symbol,
                               {TensorArg(0), TensorArg(1), ValueArg(case_.tensors[0].elements())});
    request.input_seed = 7;
    return request;
  }
  RunObservation Run(const RunRequest& request) {
    auto result = runner_.RunCase(request);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.value_or(RunObservation());
  }

  HostDevice device_;
  InProcessRunner runner_{device_};
  BoundCase case_;
};

TEST_F(CaseRunnerTest, ReturnsOutputsOfAnHonestKernel) {
  const RunRequest request = Request("double");
  const RunObservation result = Run(request);
  ASSERT_EQ(result.outputs.size(), 1u);
  const auto inputs = MakeInputs(case_, {7}, {});
  ASSERT_TRUE(inputs.ok());
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(DecodeFloat(DType::kF32, result.outputs[0].data(), i),
              2 * DecodeFloat(DType::kF32, (*inputs)[0].data(), i));
  }
  EXPECT_FALSE(result.modified_input);
  EXPECT_FALSE(result.guard_violation);
  EXPECT_TRUE(result.repeats_equal);
  EXPECT_EQ(result.output_digests[0],
            Sha256Hex({reinterpret_cast<const char*>(result.outputs[0].data()), 256}));
}

// A device that draws inputs itself gives the outputs of one that gets them, flip included; one
// that draws wrong numbers is found out and draws no more.
TEST_F(CaseRunnerTest, LargeInputsAreDrawnOnTheDevice) {
  constexpr std::int64_t kCount = 300'000;
  case_.tensors = {MakeTensor("x", Role::kIn, DType::kF32, {kCount}),
                   MakeTensor("y", Role::kOut, DType::kF32, {kCount})};
  RunRequest request = Request("double");
  request.flip_tensor = 0;
  request.flip_element = kCount + 77;
  const auto outputs = [&](HostDevice::Drawer draw) {
    device_.set_draw(std::move(draw));
    InProcessRunner runner(device_);
    request.kernel.module = runner.LoadModule("", {"double"}).value_or(-1);
    auto result = runner.RunCase(request);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.value_or(RunObservation()).outputs;
  };
  const auto expected = outputs({});
  int drawn = 0;
  EXPECT_TRUE(outputs([&](DeviceBuffer& to, std::int64_t count, const DrawnFill& fill) {
                ++drawn;
                WriteDrawn(fill, 0, count, reinterpret_cast<std::uint8_t*>(to.address()));
                return absl::OkStatus();
              }) == expected);
  EXPECT_EQ(drawn, 1);
  EXPECT_TRUE(outputs([&](DeviceBuffer& to, std::int64_t count, DrawnFill fill) {
                ++drawn;
                fill.seed ^= 1;
                WriteDrawn(fill, 0, count, reinterpret_cast<std::uint8_t*>(to.address()));
                return absl::OkStatus();
              }) == expected);
  EXPECT_EQ(drawn, 2);
}

TEST_F(CaseRunnerTest, NoOpLeavesPoison) {
  Register("noop", [](float*, float*, std::int64_t) {});
  EXPECT_EQ(Run(Request("noop")).poison_bytes, std::vector<std::int64_t>{256});
}

TEST_F(CaseRunnerTest, ReportsAWriteToAnInput) {
  Register("write_input", [](float* x, float* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];
    x[5] = 0;
  });
  EXPECT_EQ(Run(Request("write_input")).modified_input, "x");
}

TEST_F(CaseRunnerTest, ReportsWritesBehindAndBeforeTheOutput) {
  Register("past_end", [](float*, float* y, std::int64_t n) { y[n] = 1; });
  EXPECT_EQ(Run(Request("past_end")).guard_violation, "y: 4 bytes changed from 0 past the end");
  Register("before", [](float*, float* y, std::int64_t) { y[-3] = 1; });
  const auto violation = Run(Request("before")).guard_violation;
  ASSERT_TRUE(violation);
  EXPECT_THAT(*violation, ::testing::HasSubstr("before the start"));
}

TEST_F(CaseRunnerTest, GuardsReadAsNaN) {
  Register("read_past", [](float* x, float* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i + 1];
  });
  const RunObservation result = Run(Request("read_past"));
  EXPECT_TRUE(std::isnan(DecodeFloat(DType::kF32, result.outputs[0].data(), 63)));
}

TEST_F(CaseRunnerTest, ReportsRepeatsThatDiffer) {
  int calls = 0;
  Register("counter", [&calls](float*, float* y, std::int64_t n) {
    ++calls;
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(calls);
  });
  RunRequest request = Request("counter");
  request.repeats = 5;
  EXPECT_FALSE(Run(request).repeats_equal);
  EXPECT_EQ(calls, 5);
  request.bound_case.deterministic = false;
  EXPECT_EQ(Run(request).other_outputs.size(), 4u);
}

TEST_F(CaseRunnerTest, ReuseChangesInputsInPlace) {
  std::vector<float*> addresses;
  Register("address", [&](float* x, float* y, std::int64_t n) {
    addresses.push_back(x);
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i];
  });
  RunRequest request = Request("address");
  const RunObservation before = Run(request);
  request.reuse_buffers = true;
  request.flip_tensor = 0;
  request.flip_element = 17;
  const RunObservation after = Run(request);
  EXPECT_EQ(addresses[0], addresses[1]);
  int changed = 0;
  for (int i = 0; i < 64; ++i) {
    changed += DecodeFloat(DType::kF32, before.outputs[0].data(), i) !=
               DecodeFloat(DType::kF32, after.outputs[0].data(), i);
  }
  EXPECT_EQ(changed, 1);
}

TEST_F(CaseRunnerTest, PageEndPlacesTheLastByteBeforeTheFault) {
  std::uint64_t end = 0;
  Register("where", [&end](float*, float* y, std::int64_t n) {
    end = reinterpret_cast<std::uint64_t>(y + n);
    for (std::int64_t i = 0; i < n; ++i) y[i] = 0;
  });
  RunRequest request = Request("where");
  request.placement = Placement::kPageEnd;
  EXPECT_TRUE(Run(request).at_page_end);
  EXPECT_EQ(end % 4096, 0u);
}

TEST_F(CaseRunnerTest, ScatteredBuffersLieAtDifferentOffsetsOfTheirPages) {
  std::vector<std::uint64_t> x_at, y_at;
  Register("where", [&](float* x, float* y, std::int64_t n) {
    x_at.push_back(reinterpret_cast<std::uint64_t>(x));
    y_at.push_back(reinterpret_cast<std::uint64_t>(y));
    for (std::int64_t i = 0; i < n; ++i) y[i] = 0;
  });
  RunRequest request = Request("where");
  request.placement = Placement::kScattered;
  for (int run = 0; run < 20; ++run) {
    EXPECT_FALSE(Run(request).guard_violation);
    EXPECT_EQ(x_at.back() % 256, 0u);
    EXPECT_EQ(y_at.back() % 256, 0u);
  }
  int alike = 0, moved = 0;
  for (std::size_t run = 0; run < x_at.size(); ++run) {
    alike += x_at[run] % 4096 == y_at[run] % 4096;
    moved += x_at[run] % 4096 != x_at[0] % 4096;
  }
  EXPECT_LT(alike, 10);  // One in sixteen by chance; of small buffers the allocator adds its own.
  EXPECT_GT(moved, 5);
}

TEST_F(CaseRunnerTest, MisalignedGivesTheContractsAlignmentAndNoMore) {
  std::uint64_t address = 0;
  Register("where", [&address](float*, float* y, std::int64_t n) {
    address = reinterpret_cast<std::uint64_t>(y);
    for (std::int64_t i = 0; i < n; ++i) y[i] = 0;
  });
  case_.tensors[1].align_bytes = 4;
  RunRequest request = Request("where");
  request.placement = Placement::kMisaligned;
  EXPECT_FALSE(Run(request).guard_violation);
  EXPECT_EQ(address % 8, 4u);
}

TEST_F(CaseRunnerTest, ReportsWritesToPadding) {
  case_.tensors[1].shape = {8, 8};
  case_.tensors[1].strides = {10, 1};
  Register("strided", [](float* x, float* y, std::int64_t) {
    for (int r = 0; r < 8; ++r) {
      for (int c = 0; c < 8; ++c) y[r * 10 + c] = x[r * 8 + c];
    }
  });
  const RunObservation good = Run(Request("strided"));
  EXPECT_FALSE(good.padding_violation);
  EXPECT_EQ(good.outputs[0].size(), 256u);
  EXPECT_LT(good.poison_bytes[0], 10);  // A value may hold such a byte.
  Register("sloppy", [](float*, float* y, std::int64_t) {
    for (int i = 0; i < 78; ++i) y[i] = 1;
  });
  EXPECT_TRUE(Run(Request("sloppy")).padding_violation);
}

TEST_F(CaseRunnerTest, InOutIsRestoredAndUntouchedRowsAreHeld) {
  case_.tensors = {MakeTensor("rows", Role::kIndex, DType::kI64, {2}),
                   MakeTensor("table", Role::kInOut, DType::kF32, {8, 4})};
  case_.tensors[0].fill.kind = Fill::Kind::kList;
  case_.tensors[0].fill.list = {1, 6};
  case_.tensors[1].restore.kind = Restore::Kind::kTouchedIndex;
  case_.tensors[1].restore.index = "rows";
  case_.tolerances = {AutoTolerance("table")};
  const auto add = [this](const std::string& symbol, std::int64_t extra_row) {
    device_.Register(symbol, [extra_row](const LaunchConfig&, Args args) {
      const auto* rows = ArgumentAs<const std::int64_t*>(args, 0);
      auto* table = ArgumentAs<float*>(args, 1);
      for (int i = 0; i < 2; ++i) table[rows[i] * 4] += 1;
      if (extra_row >= 0) table[extra_row * 4] += 1;
      return absl::OkStatus();
    });
  };
  add("update", -1);
  RunRequest request = Request("update");
  request.repeats = 3;
  const RunObservation good = Run(request);
  EXPECT_TRUE(good.repeats_equal);  // Restored before every call.
  EXPECT_FALSE(good.modified_input);
  add("stray", 3);
  EXPECT_EQ(Run(Request("stray")).modified_input, "table row 3");
}

TEST_F(CaseRunnerTest, PointerTablesAreBuiltAndGuarded) {
  case_.tensors = {MakeTensor("out", Role::kOut, DType::kF32, {4}),
                   MakeTensor("out", Role::kOut, DType::kF32, {2})};
  case_.tensors[1].member = 1;
  case_.pointers = {{"out", 0, 2, false}};
  bool spoil = false;
  device_.Register("scatter", [&spoil](const LaunchConfig&, Args args) {
    auto** table = ArgumentAs<float**>(args, 0);
    for (int i = 0; i < 4; ++i) table[0][i] = 1;
    for (int i = 0; i < 2; ++i) table[1][i] = 2;
    if (spoil) table[1] = nullptr;
    return absl::OkStatus();
  });
  const auto module = runner_.LoadModule("", {"scatter"});
  ASSERT_TRUE(module.ok());
  RunRequest request;
  request.bound_case = case_;
  BoundArg arg;
  arg.kind = BoundArg::Kind::kPointers;
  request.kernel = OneLaunch(*module, "scatter", {arg});
  const RunObservation good = Run(request);
  EXPECT_FALSE(good.guard_violation) << *good.guard_violation;
  EXPECT_EQ(DecodeFloat(DType::kF32, good.outputs[1].data(), 1), 2);
  spoil = true;
  EXPECT_EQ(Run(request).guard_violation, "the pointer table of out was changed");
}

TEST_F(CaseRunnerTest, StructsCarryAddressesAndNulls) {
  device_.Register("struct", [](const LaunchConfig&, Args args) {
    struct Params {
      const float* x;
      float* y;
      void* none;
      std::int64_t n;
    } params;
    EXPECT_EQ(args[0].size(), sizeof(params));
    std::memcpy(&params, args[0].data(), sizeof(params));
    EXPECT_EQ(params.none, nullptr);
    for (std::int64_t i = 0; i < params.n; ++i) params.y[i] = params.x[i];
    return absl::OkStatus();
  });
  const auto module = runner_.LoadModule("", {"struct"});
  ASSERT_TRUE(module.ok());
  BoundArg arg;
  arg.kind = BoundArg::Kind::kStruct;
  arg.bytes.assign(32, 0);
  arg.bytes[24] = 64;
  BoundArg none;
  none.kind = BoundArg::Kind::kNull;
  arg.fields = {{0, TensorArg(0)}, {8, TensorArg(1)}, {16, none}};
  RunRequest request;
  request.bound_case = case_;
  request.kernel = OneLaunch(*module, "struct", {arg});
  EXPECT_LT(Run(request).poison_bytes[0], 10);
  request.kernel.plan.steps[0].args[0].fields[2].first = 28;  // Does not fit.
  EXPECT_EQ(runner_.RunCase(request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CaseRunnerTest, ZeroesWorkspaceBeforeEveryCallAndFillsSteps) {
  device_.Register("accumulate", [](const LaunchConfig&, Args args) {
    auto* y = ArgumentAs<float*>(args, 0);
    auto* scratch = ArgumentAs<std::int64_t*>(args, 1);
    scratch[0] += 1;
    y[0] = static_cast<float>(scratch[0]);
    return absl::OkStatus();
  });
  const auto module = runner_.LoadModule("", {"accumulate"});
  ASSERT_TRUE(module.ok());
  BoundArg workspace;
  workspace.kind = BoundArg::Kind::kWorkspace;
  RunRequest request;
  request.bound_case = case_;
  request.kernel = OneLaunch(*module, "accumulate", {TensorArg(1), workspace});
  request.kernel.plan.workspace = {{"scratch", DType::kI64, 1, /*zero=*/true}};
  BoundStep fill;
  fill.kind = BoundStep::Kind::kFill;
  fill.target = TensorArg(1);
  fill.byte_count = 256;
  request.kernel.plan.steps.insert(request.kernel.plan.steps.begin(), fill);
  request.repeats = 3;
  const RunObservation result = Run(request);
  EXPECT_TRUE(result.repeats_equal);
  EXPECT_EQ(DecodeFloat(DType::kF32, result.outputs[0].data(), 0), 1);
  EXPECT_EQ(DecodeFloat(DType::kF32, result.outputs[0].data(), 1), 0);
  request.kernel.plan.steps[0].byte_count = 257;
  EXPECT_EQ(runner_.RunCase(request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CaseRunnerTest, EmptyTensorsAreLegal) {
  case_.tensors = {MakeTensor("x", Role::kIn, DType::kF32, {0, 8}),
                   MakeTensor("y", Role::kOut, DType::kF32, {0, 8})};
  const RunObservation result = Run(Request("double"));
  EXPECT_TRUE(result.outputs[0].empty());
  EXPECT_FALSE(result.guard_violation);
}

}  // namespace
}  // namespace fettle
