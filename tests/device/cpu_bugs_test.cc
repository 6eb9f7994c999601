// SPDX-License-Identifier: Apache-2.0

// Buggy kernels are found, by kind and at the lines that carry a "// BUG" comment.

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/device/cpu_harness.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;

struct BugCase {
  std::string name;
  std::vector<std::string> kinds;  // One of these is found.
  std::string message;             // Part of its message.
  std::array<std::int64_t, 3> grid{1, 1, 1}, block{256, 1, 1};
  std::int64_t shared = 0;
  std::size_t x_count = 256, y_count = 256;
  std::vector<int> scalars;  // After x and y.
  bool y_initialised = false;
  int lanes = 32;
  bool is_error = true;
};

std::vector<BugCase> AllBugs() {
  return {
      {.name = "oob_write",
       .kinds = {"oob.write"},
       .message = "buffer 'y' (800 bytes): offset 800, 0 bytes past the end",
       .y_count = 200,
       .scalars = {200}},
      {.name = "oob_far", .kinds = {"oob.read"}, .message = "buffer 'x'", .scalars = {256}},
      {.name = "oob_local",
       .kinds = {"ub.index"},
       .message = "index 4 is out of bounds",
       .scalars = {4}},
      {.name = "oob_shared",
       .kinds = {"ub.index"},
       .message = "index 256 is out of bounds",
       .scalars = {256}},
      {.name = "oob_dynamic",
       .kinds = {"oob.write"},
       .message = "dynamic shared memory",
       .block = {64, 1, 1},
       .shared = 256,
       .scalars = {64}},
      {.name = "memcpy_oob",
       .kinds = {"oob.read", "oob.write"},
       .message = "past the end",
       .block = {64, 1, 1},
       .scalars = {5}},
      {.name = "write_input",
       .kinds = {"write.const"},
       .message = "write to input buffer 'x'",
       .scalars = {256}},
      {.name = "misaligned",
       .kinds = {"ub.align"},
       .message = "needs 16-byte alignment",
       .block = {8, 1, 1},
       .scalars = {8}},
      {.name = "race_missing_sync",
       .kinds = {"race.block"},
       .message = "no __syncthreads in between",
       .scalars = {256}},
      {.name = "race_warp",
       .kinds = {"race.intra-warp"},
       .message = "no __syncwarp",
       .block = {32, 1, 1},
       .scalars = {32}},
      {.name = "race_global",
       .kinds = {"race.intra-warp", "race.block", "race.global"},
       .message = "buffer 'y' byte 0",
       .grid = {4, 1, 1},
       .block = {64, 1, 1},
       .scalars = {256},
       .y_initialised = true},
      {.name = "race_two_blocks",
       .kinds = {"race.global"},
       .message = "no order between blocks",
       .grid = {2, 1, 1},
       .scalars = {256}},
      {.name = "uninit_shared",
       .kinds = {"uninit.read"},
       .message = "__shared__ 's' byte",
       .scalars = {200}},
      {.name = "uninit_out",
       .kinds = {"uninit.read"},
       .message = "buffer 'y' byte 0",
       .scalars = {256}},
      {.name = "barrier_div",
       .kinds = {"barrier.divergent"},
       .message = "100 threads at __syncthreads",
       .scalars = {256}},
      {.name = "barrier_return",
       .kinds = {"barrier.exited"},
       .message = "ended before a barrier",
       .scalars = {200},
       .is_error = false},
      {.name = "barrier_left",
       .kinds = {"barrier.divergent"},
       .message = "took this barrier before",
       .scalars = {256}},
      {.name = "barrier_deadlock",
       .kinds = {"warp.mask"},
       .message = "are elsewhere",
       .scalars = {256}},
      {.name = "warp32_shfl",
       .kinds = {"portability"},
       .message = "32-bit lane mask",
       .scalars = {256},
       .lanes = 64,
       .is_error = false},
      {.name = "warp32_ballot",
       .kinds = {"portability"},
       .message = "32-bit lane mask",
       .block = {64, 1, 1},
       .scalars = {256},
       .lanes = 64,
       .is_error = false},
      {.name = "divide_by_zero",
       .kinds = {"ub.division"},
       .message = "division by zero",
       .scalars = {4}},
      {.name = "overflow",
       .kinds = {"ub.overflow"},
       .message = "100000 * 100000",
       .scalars = {100000}},
      {.name = "assert_fails",
       .kinds = {"trap"},
       .message = "assert(n < 0) failed",
       .scalars = {1}},
  };
}

// Lines of the source that carry the mark.
std::vector<int> BugLines(const std::string& source) {
  std::vector<int> lines;
  int line = 1;
  for (std::size_t at = 0; at < source.size(); ++line) {
    const std::size_t end = std::min(source.find('\n', at), source.size());
    if (source.substr(at, end - at).find("// BUG") != std::string::npos) lines.push_back(line);
    at = end + 1;
  }
  return lines;
}

CpuRun RunBug(Device& device, const BugCase& bug, const CompileResult& compiled) {
  std::vector<CpuArgument> arguments = {In("x", std::vector<float>(bug.x_count, 1.f))};
  arguments.push_back(bug.y_initialised ? InOut("y", std::vector<float>(bug.y_count, 0.f))
                                        : Out<float>("y", bug.y_count));
  for (int value : bug.scalars) arguments.push_back(Scalar(value));
  return RunKernel(device, compiled,
                   {.grid = bug.grid, .block = bug.block, .shared_bytes = bug.shared}, arguments);
}

class CpuBugs : public ::testing::TestWithParam<int> {};

TEST_P(CpuBugs, AreFoundAtTheirLine) {
  const BugCase bug = AllBugs()[static_cast<std::size_t>(GetParam())];
  const std::string file = bug.name + ".cu";
  const std::string source = CpuTestSource("bugs/" + file);
  const CompileResult compiled = CompileOrFail(
      CpuRequest(file, source, {bug.name}, {.mode = CompileMode::kCheck, .lanes = bug.lanes}));
  ASSERT_TRUE(compiled.accepted);
  auto device = CpuDevice::Create({});
  ASSERT_TRUE(device.ok());
  const CpuRun run = RunBug(**device, bug, compiled);
  EXPECT_TRUE(run.status.ok()) << run.status;
  const std::vector<int> lines = BugLines(source);
  const auto found = std::find_if(run.findings.begin(), run.findings.end(), [&](const auto& f) {
    return std::find(bug.kinds.begin(), bug.kinds.end(), f.kind) != bug.kinds.end() &&
           std::find(lines.begin(), lines.end(), f.line) != lines.end();
  });
  ASSERT_NE(found, run.findings.end()) << run.Text();
  EXPECT_EQ(found->is_error, bug.is_error);
  EXPECT_THAT(found->message, HasSubstr(bug.message));
  EXPECT_THAT(found->message, HasSubstr("block (0,0,0)")) << run.Text();
  EXPECT_EQ(found->file, file) << run.Text();
  if (!bug.is_error) return;
  // What is found does not depend on luck: a second device says the same.
  auto again = CpuDevice::Create({});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(RunBug(**again, bug, compiled).Text(), run.Text());
}

INSTANTIATE_TEST_SUITE_P(All, CpuBugs, ::testing::Range(0, static_cast<int>(AllBugs().size())),
                         [](const ::testing::TestParamInfo<int>& which) {
                           return AllBugs()[static_cast<std::size_t>(which.param)].name;
                         });

TEST(CpuBugsOfOtherShapes, FindsTheSecondBarrierOfATileLoop) {
  const std::string source = CpuTestSource("bugs/race_loop_war.cu");
  const CompileResult compiled = CompileOrFail(
      CpuRequest("race_loop_war.cu", source, {"race_loop_war"}, {.mode = CompileMode::kCheck}));
  auto device = CpuDevice::Create({});
  std::vector<CpuArgument> arguments = {In("a", std::vector<float>(32 * 32, 1.f)),
                                        In("b", std::vector<float>(32 * 32, 1.f)),
                                        Out<float>("c", 32 * 32),
                                        Scalar(32),
                                        Scalar(32),
                                        Scalar(32)};
  const CpuRun run =
      RunKernel(**device, compiled, {.grid = {2, 2, 1}, .block = {16, 16, 1}}, arguments);
  const std::vector<int> lines = BugLines(source);
  EXPECT_TRUE(std::any_of(run.findings.begin(), run.findings.end(), [&](const auto& f) {
    return f.is_error && f.kind == "race.block" &&
           f.message.find("after a read") != std::string::npos &&
           std::find(lines.begin(), lines.end(), f.line) != lines.end();
  })) << run.Text();
}

TEST(CpuBugsOfOtherShapes, EndsASpinningBlockWithTheTimeLimit) {
  const CompileResult compiled =
      CompileOrFail(CpuRequest("spin_forever.cu", CpuTestSource("bugs/spin_forever.cu"),
                               {"spin_forever"}, {.mode = CompileMode::kCheck}));
  auto device = CpuDevice::Create({.launch_limit = std::chrono::milliseconds(300)});
  std::vector<CpuArgument> arguments = {In("x", std::vector<float>(1)),
                                        InOut("y", std::vector<float>(1)), Scalar(1)};
  const CpuRun run = RunKernel(**device, compiled, {.block = {32, 1, 1}}, arguments);
  EXPECT_EQ(run.status.code(), absl::StatusCode::kDeadlineExceeded) << run.status;
  ASSERT_FALSE(run.findings.empty());
  EXPECT_EQ(run.findings[0].kind, "hang");
}

TEST(CpuBugsOfOtherShapes, PoisonsUninitialisedLocals) {
  const CompileResult compiled =
      CompileOrFail(CpuRequest("uninit_local.cu", CpuTestSource("bugs/uninit_local.cu"),
                               {"uninit_local"}, {.mode = CompileMode::kCheck}));
  auto device = CpuDevice::Create({});
  std::vector<CpuArgument> arguments = {In("x", std::vector<float>(64, 1.f)), Out<float>("y", 64),
                                        Scalar(4)};
  const CpuRun run = RunKernel(**device, compiled, {.block = {64, 1, 1}}, arguments);
  ASSERT_TRUE(run.status.ok());
  const float value = ValuesOf<float>(arguments[1])[0];
  EXPECT_FALSE(value > -1e6f && value < 1e6f) << value;
}

TEST(CpuBugsOfOtherShapes, FindsAWarpOf32AssumedBy64LanesInTheNumbers) {
  const std::string source = CpuTestSource("bugs/warp32_shfl.cu");
  for (const int lanes : {32, 64}) {
    const CompileResult compiled =
        CompileOrFail(CpuRequest("warp32_shfl.cu", source, {"warp32_shfl"}, {.lanes = lanes}));
    auto device = CpuDevice::Create({});
    std::vector<float> x(64);
    for (std::size_t i = 0; i < 64; ++i) x[i] = i < 32 ? 1.f : 2.f;
    std::vector<CpuArgument> arguments = {In("x", x), Out<float>("y", 64), Scalar(64)};
    const CpuRun run = RunKernel(**device, compiled, {.block = {64, 1, 1}}, arguments);
    ASSERT_TRUE(run.status.ok()) << run.Text();
    EXPECT_EQ(ValuesOf<float>(arguments[1])[40] == 64.f, lanes == 32);
  }
}

}  // namespace
}  // namespace fettle
