// SPDX-License-Identifier: Apache-2.0

// compute-sanitizer itself over calls on a GPU of NVIDIA's: a right kernel, and one for each tool.
// FETTLE_REQUIRE_GPU=1 makes a missing device, or a sanitizer that refuses it, a failure.

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/fakes/memory_blob_store.h"
#include "tests/fakes/twice_task.h"
#include "worker/sanitizer.h"
#include "worker/unit_runner.h"

namespace fettle {
namespace {

using Outcome = SanitizerFinding::Outcome;

const std::string kRunner =
    (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fettle-runner").string();

class SanitizerOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    UnitRunnerOptions options;
    options.runner_path = kRunner;
    options.device_ids = {"cuda:0"};
    auto made = UnitRunner::Create(options);
    if (!made.ok() && std::getenv("FETTLE_REQUIRE_GPU") == nullptr) {
      GTEST_SKIP() << made.status();
    }
    ASSERT_TRUE(made.ok()) << made.status();
    runner_ = *std::move(made);
    target_ = runner_->devices().front().target;
    const TaskFiles files = TwiceTask();
    std::vector<TaskProblem> problems;
    auto parsed = Task::Parse(files, &problems);
    ASSERT_TRUE(parsed.ok()) << FormatProblems(problems);
    task_ = *parsed;
    blob_ = *blobs_.Put(PackTaskFiles(files));
  }

  // What every tool says of `source` on a case of 257 elements.
  std::map<std::string, Outcome> Outcomes(const std::string& source) {
    WorkUnit unit;
    unit.id = "sanitized";
    unit.kind = UnitKind::kCompile;
    unit.task_digest = task_->digest();
    unit.task_blob = blob_;
    unit.target = target_.name;
    unit.candidate = TwiceUnderTest(*task_, target_.name, source);
    unit.denominator = unit.candidate;
    const auto compiled = runner_->Run(unit, blobs_, {}, {});
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    if (!compiled.ok() || compiled->builds.empty()) return {};
    const BuildRecord& build = compiled->builds.front();
    const auto cases = task_->BindCases(CaseSet::kChecked, 5, target_);
    EXPECT_TRUE(cases.ok()) << cases.status();
    Replay call;
    call.code_object = *blobs_.Get(build.code_object);
    call.symbols = build.symbols;
    call.request.bound_case = cases->back();
    call.request.kernel.symbols = {{build.entries.front(), build.symbols.front()}};
    call.request.kernel.plan =
        *task_->BindPlan(unit.candidate.kernel, unit.candidate.values, cases->back(), target_);
    call.request.input_seed = 5;
    call.request.launch_limit = std::chrono::minutes(1);
    std::map<std::string, Outcome> outcomes;
    for (const SanitizerFinding& one : SanitizeCalls({call}, kRunner, "cuda:0", {}, {})) {
      std::printf("%s: %s\n", one.tool.c_str(), SanitizerWords({one}).at(one.tool).c_str());
      outcomes[one.tool] = one.outcome;
    }
    return outcomes;
  }
  // Expects that `tool` finds something in `source`; where it did not run, that is said.
  void Finds(const std::string& tool, const std::string& source) {
    const auto outcomes = Outcomes(source);
    ASSERT_TRUE(outcomes.contains(tool));
    if (outcomes.at(tool) == Outcome::kNotRun && std::getenv("FETTLE_REQUIRE_GPU") == nullptr) {
      GTEST_SKIP() << tool << " did not run here";
    }
    EXPECT_EQ(outcomes.at(tool), Outcome::kFailed);
  }

  std::unique_ptr<UnitRunner> runner_;
  Target target_;
  MemoryBlobStore blobs_;
  std::shared_ptr<const Task> task_;
  std::string blob_;
};

TEST_F(SanitizerOnGpu, FindsNothingInARightKernel) {
  int passed = 0;
  for (const auto& [tool, outcome] : Outcomes(TwiceKernel("y[i] = 2 * x[i];"))) {
    EXPECT_NE(outcome, Outcome::kFailed) << tool;
    passed += outcome == Outcome::kPassed;
  }
  if (passed == 0 && std::getenv("FETTLE_REQUIRE_GPU") == nullptr) {
    GTEST_SKIP() << "no tool ran here";
  }
  EXPECT_EQ(passed, 4);
}

TEST_F(SanitizerOnGpu, MemcheckFindsAReadPastTheEnd) {
  Finds("memcheck", TwiceKernel("y[i] = 2 * x[i] + 0 * x[i + n];"));
}

TEST_F(SanitizerOnGpu, InitcheckFindsAReadOfTheOutput) {
  Finds("initcheck", TwiceKernel("y[i] = 2 * x[i] + 0 * y[i];"));
}

TEST_F(SanitizerOnGpu, RacecheckFindsASharedWord) {
  Finds("racecheck", TwiceKernel("__shared__ float all[256]; all[threadIdx.x] = x[i]; "
                                 "y[i] = 2 * x[i] + 0 * all[(threadIdx.x + 64) % 256];"));
}

// On an H200 (CUDA 13.0) synccheck says nothing of a barrier that half of a warp takes, so only
// that it runs to its end is asked here; what is read from a report that it does write,
// sanitizer_test asks.
TEST_F(SanitizerOnGpu, SynccheckComesToItsEnd) {
  const auto outcomes =
      Outcomes(TwiceKernel("if (threadIdx.x % 32 < 16) __syncwarp(0xffffffffu); y[i] = 2 * x[i];"));
  ASSERT_TRUE(outcomes.contains("synccheck"));
  if (outcomes.at("synccheck") == Outcome::kNotRun &&
      std::getenv("FETTLE_REQUIRE_GPU") == nullptr) {
    GTEST_SKIP() << "synccheck did not run here";
  }
  EXPECT_NE(outcomes.at("synccheck"), Outcome::kNotRun);
}

}  // namespace
}  // namespace fettle
