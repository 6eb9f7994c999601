// SPDX-License-Identifier: Apache-2.0
// What a worker without a device compiles is not compiled again by one that has it.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/digest.h"
#include "tests/fakes/memory_blob_store.h"
#include "tests/fakes/twice_task.h"
#include "worker/unit_runner.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;

class CompileOnlyTest : public ::testing::Test {
 protected:
  // With a compile cache of its own, as on another machine.
  static std::unique_ptr<UnitRunner> Runner(bool compile_only) {
    UnitRunnerOptions options;
    options.runner_path = std::string(FETTLE_BIN_DIR) + "/fettle-runner";
    options.compile_only = compile_only;
    if (!compile_only) options.device_ids = {"cpu"};
    auto created = UnitRunner::Create(options);
    EXPECT_TRUE(created.ok()) << created.status();
    return created.ok() ? *std::move(created) : nullptr;
  }
  void SetUp() override {
    const TaskFiles files = TwiceTask();
    std::vector<TaskProblem> problems;
    auto parsed = Task::Parse(files, &problems);
    ASSERT_TRUE(parsed.ok()) << FormatProblems(problems);
    task_ = *parsed;
    task_blob_ = *blobs_.Put(PackTaskFiles(files));
    compiler_ = Runner(/*compile_only=*/true);
    ASSERT_NE(compiler_, nullptr);
  }
  WorkUnit Unit(UnitKind kind, const std::string& target, const std::string& body) {
    WorkUnit unit;
    unit.id = "u";
    unit.kind = kind;
    unit.task_digest = task_->digest();
    unit.task_blob = task_blob_;
    unit.target = target;
    unit.candidate = TwiceUnderTest(*task_, target, TwiceKernel(body));
    unit.denominator = TwiceUnderTest(*task_, target, task_->baseline().source);
    unit.seed = 5;
    unit.measure = false;
    return unit;
  }
  static bool Compiles(const UnitRunner& runner, const std::string& target) {
    for (const auto& compiler : runner.compilers()) {
      for (const auto& one : compiler["targets"]) {
        if (one == target) return true;
      }
    }
    return false;
  }
  // Compiles for `target` on one worker, then on another that is told of it.
  void CompilesOnceFor(const std::string& target, const std::string& body, bool accepted) {
    auto first = compiler_->Run(Unit(UnitKind::kCompile, target, body), blobs_, {}, {});
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_EQ(first->compiled.size(), 1U);
    ASSERT_EQ(first->builds.size(), 1U);
    EXPECT_FALSE(first->builds[0].cache_hit);
    EXPECT_EQ(first->verdict.has_value(), !accepted);
    const auto other = Runner(/*compile_only=*/true);
    ASSERT_NE(other, nullptr);
    WorkUnit again = Unit(UnitKind::kCompile, target, body);
    again.compiled = first->compiled;
    const auto second = other->Run(again, blobs_, {}, {});
    ASSERT_TRUE(second.ok()) << second.status();
    ASSERT_EQ(second->builds.size(), 1U);
    EXPECT_TRUE(second->builds[0].cache_hit) << "it was compiled again";
    EXPECT_EQ(second->builds[0].code_object, first->builds[0].code_object);
    EXPECT_EQ(second->verdict.has_value(), !accepted);
  }

  std::shared_ptr<const Task> task_;
  MemoryBlobStore blobs_;
  std::string task_blob_;
  std::unique_ptr<UnitRunner> compiler_;
};

TEST_F(CompileOnlyTest, OffersNoDeviceAndRunsNothing) {
  EXPECT_TRUE(compiler_->devices().empty());
  EXPECT_TRUE(Compiles(*compiler_, "cpu"));
  const auto result =
      compiler_->Run(Unit(UnitKind::kEvaluate, "cpu", "y[i] = x[i] + x[i];"), blobs_, {}, {});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("no device here"));
}

TEST_F(CompileOnlyTest, ChecksOnTheCpu) {
  WorkUnit unit = Unit(UnitKind::kEvaluate, "cpu", "y[i] = x[i] + x[i];");
  unit.check_mode = true;
  const auto right = compiler_->Run(unit, blobs_, {}, {});
  ASSERT_TRUE(right.ok()) << right.status();
  EXPECT_FALSE(right->verdict) << right->verdict->message;
  unit = Unit(UnitKind::kEvaluate, "cpu", "y[i] = x[i + n];");
  unit.check_mode = true;
  const auto wrong = compiler_->Run(unit, blobs_, {}, {});
  ASSERT_TRUE(wrong.ok()) << wrong.status();
  EXPECT_TRUE(wrong->verdict) << "it reads beyond its input";
}

TEST_F(CompileOnlyTest, ADevicesWorkerTakesWhatWasCompiled) {
  const std::string body = "y[i] = x[i] * 2.0f;";
  const auto ahead = compiler_->Run(Unit(UnitKind::kCompile, "cpu", body), blobs_, {}, {});
  ASSERT_TRUE(ahead.ok()) << ahead.status();
  ASSERT_FALSE(ahead->compiled.empty());
  const auto device = Runner(/*compile_only=*/false);
  ASSERT_NE(device, nullptr);
  WorkUnit unit = Unit(UnitKind::kEvaluate, "cpu", body);
  unit.compiled = ahead->compiled;
  const auto result = device->Run(unit, blobs_, {}, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->verdict) << result->verdict->message;
  ASSERT_EQ(result->builds.size(), ahead->builds.size());
  for (const BuildRecord& build : result->builds) EXPECT_TRUE(build.cache_hit) << build.key;
  EXPECT_EQ(result->builds[0].code_object, ahead->builds[0].code_object);
}

TEST_F(CompileOnlyTest, WhatIsDamagedGoneOrOfAnotherCompilerIsCompiledHere) {
  const std::string body = "y[i] = 2.0f * x[i];";
  const auto ahead = compiler_->Run(Unit(UnitKind::kCompile, "cpu", body), blobs_, {}, {});
  ASSERT_TRUE(ahead.ok()) << ahead.status();
  WorkUnit unit = Unit(UnitKind::kCompile, "cpu", body);
  for (const auto& [key, digest] : ahead->compiled) {
    unit.compiled[key] = *blobs_.Put("damaged");
    unit.compiled[std::string(64, 'f')] = digest;  // As of another compiler.
  }
  const auto compiled_here = [this](const WorkUnit& work) {
    const auto other = Runner(/*compile_only=*/true);
    ASSERT_NE(other, nullptr);
    const auto result = other->Run(work, blobs_, {}, {});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_FALSE(result->verdict);
    ASSERT_EQ(result->builds.size(), 1U);
    EXPECT_FALSE(result->builds[0].cache_hit);
  };
  compiled_here(unit);
  for (const auto& [key, digest] : ahead->compiled) unit.compiled[key] = Sha256Hex("gone");
  compiled_here(unit);
}

TEST_F(CompileOnlyTest, CompilesForGpusThatAreElsewhere) {
  int tried = 0;
  for (const char* target : {"sm_90a", "gfx950"}) {
    if (!Compiles(*compiler_, target)) continue;
    ++tried;
    CompilesOnceFor(target, "y[i] = x[i] + x[i];", /*accepted=*/true);
    CompilesOnceFor(target, "y[i] = undeclared;", /*accepted=*/false);
  }
  if (tried == 0) GTEST_SKIP() << "no compiler for sm_90a or gfx950 on this machine";
}

}  // namespace
}  // namespace fettle
