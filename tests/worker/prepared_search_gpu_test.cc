// SPDX-License-Identifier: Apache-2.0

// A registration on a GPU gets the search's inputs ready, by sending the baseline the way of a
// candidate. FETTLE_REQUIRE_GPU=1 makes a missing device a failure.

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/fakes/memory_blob_store.h"
#include "tests/fakes/twice_task.h"
#include "worker/unit_runner.h"

namespace fettle {
namespace {

TEST(PreparedSearchOnGpu, IsNoPartOfTheTasksVerdict) {
  UnitRunnerOptions options;
  options.runner_path =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fettle-runner").string();
  options.device_ids = {"cuda:0"};
  auto runner = UnitRunner::Create(options);
  if (!runner.ok() && std::getenv("FETTLE_REQUIRE_GPU") == nullptr) {
    GTEST_SKIP() << runner.status();
  }
  ASSERT_TRUE(runner.ok()) << runner.status();
  MemoryBlobStore blobs;
  const TaskFiles files = TwiceTask();
  std::vector<TaskProblem> problems;
  const auto task = Task::Parse(files, &problems);
  ASSERT_TRUE(task.ok()) << FormatProblems(problems);
  WorkUnit unit;
  unit.id = "r";
  unit.job_id = "j";
  unit.kind = UnitKind::kRegister;
  unit.task_digest = (*task)->digest();
  unit.task_blob = *blobs.Put(PackTaskFiles(files));
  unit.target = (*runner)->devices().front().target.name;
  unit.candidate = TwiceUnderTest(**task, unit.target, files.at("kernel.cu"));
  unit.denominator = unit.candidate;
  unit.seed = 5;
  unit.held_out_seed = 6;
  unit.search_seeds = {7, 8};
  std::vector<std::string> lines;
  const auto run = [&] {
    lines.clear();
    return (*runner)->Run(unit, blobs, [&](std::string line) { lines.push_back(line); }, {});
  };
  const auto registered = run();
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_FALSE(registered->verdict.has_value());
  EXPECT_FALSE(registered->screening.has_value());
  EXPECT_FALSE(registered->registration.empty());
  ASSERT_TRUE(registered->verification.has_value());
  EXPECT_GT(registered->verification->cases.size(), 2u);  // Held-out ones too.
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "looking at first outputs"), 2);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "screening timed/0"), 2);
  // Within a limit of device time as far as that goes.
  unit.device_cap_ms = registered->device_ns / 2'000'000;
  const auto limited = run();
  ASSERT_TRUE(limited.ok()) << limited.status();
  EXPECT_LE(limited->device_ns, (unit.device_cap_ms + 1) * 1'000'000);
}

}  // namespace
}  // namespace fettle
