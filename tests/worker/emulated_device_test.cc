// SPDX-License-Identifier: Apache-2.0
// A device behind a wrapper command: its runner starts through it, inside the sandbox, its
// correctness evidence says so, and its times never count.

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exporter/verify.h"
#include "tests/fakes/memory_blob_store.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/fakes/twice_task.h"
#include "worker/emulators.h"
#include "worker/unit_runner.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;

const std::string kStandIn = std::string(FETTLE_SOURCE_DIR) + "/tests/fakes/stand_in_emulator";

class EmulatedDevice : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder.path() / name;
    std::ofstream(path) << text;
    return path;
  }
  // An emulators file for the cpu device with the stand-in reading `config`.
  std::string Emulators(const std::string& config, const std::string& mode = "on") {
    const nlohmann::json document = {
        {"devices",
         {{"cpu",
           {{"command", {kStandIn + "/emulator.sh", "--config", config, "--"}},
            {"environment", {{"EMULATOR_MODE", mode}}},
            {"read_only", {kStandIn, folder.path().string()}}}}}}};
    return Write("emulators.json", document.dump());
  }
  absl::StatusOr<std::unique_ptr<UnitRunner>> Create(const std::string& emulators) {
    UnitRunnerOptions options;
    options.runner_path = std::string(FETTLE_BIN_DIR) + "/fettle-runner";
    options.cache_dir = folder.path() / "cache";
    options.device_ids = {"cpu"};
    options.emulators_file = emulators;
    return UnitRunner::Create(std::move(options));
  }
  std::string GoodConfig() { return Write("gpu.json", R"({"gpu": "stand-in"})"); }

  TemporaryFolder folder;
  MemoryBlobStore blobs;
};

TEST_F(EmulatedDevice, StartsItsRunnerThroughTheWrapper) {
  const auto runner = Create(Emulators(GoodConfig()));
  ASSERT_TRUE(runner.ok()) << runner.status();
  ASSERT_EQ((*runner)->devices().size(), 2U);
  EXPECT_FALSE((*runner)->devices()[0].emulated);
  EXPECT_TRUE((*runner)->devices()[1].emulated);
  EXPECT_THAT((*runner)->devices()[1].model, HasSubstr(", emulated"));
}

TEST_F(EmulatedDevice, SaysWhenTheWrapperFails) {
  const auto config = Create(Emulators(Write("gpu.json", "{}")));
  EXPECT_TRUE(absl::IsUnavailable(config.status())) << config.status();
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("cpu behind its emulator"));
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("exit code 66"));
  const auto mode = Create(Emulators(GoodConfig(), "off"));
  EXPECT_THAT(std::string(mode.status().message()), HasSubstr("exit code 65"));
}

class EmulatedUnit : public EmulatedDevice {
 protected:
  void SetUp() override {
    auto made = Create(Emulators(GoodConfig()));
    ASSERT_TRUE(made.ok()) << made.status();
    runner = *std::move(made);
    const TaskFiles files = TwiceTask();
    std::vector<TaskProblem> problems;
    auto parsed = Task::Parse(files, &problems);
    ASSERT_TRUE(parsed.ok()) << FormatProblems(problems);
    task = *parsed;
    unit.id = "u";
    unit.task_digest = task->digest();
    unit.task_blob = *blobs.Put(PackTaskFiles(files));
    unit.target = "cpu";
    unit.device_model = runner->devices()[1].model;
    unit.candidate = TwiceUnderTest(*task, "cpu", task->baseline().source);
    unit.denominator = unit.candidate;
    unit.seed = 5;
    unit.held_out_seed = 6;
  }
  std::unique_ptr<UnitRunner> runner;
  std::shared_ptr<const Task> task;
  WorkUnit unit;
};

TEST_F(EmulatedUnit, KeepsCorrectnessAndNeverTimes) {
  for (const UnitKind kind : {UnitKind::kEvaluate, UnitKind::kConfirm, UnitKind::kRerun}) {
    unit.kind = kind;
    const auto result = runner->Run(unit, blobs, {}, {});
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_TRUE(result->verdict);
    EXPECT_EQ(result->verdict->verdict, Verdict::kUnmeasurable) << result->verdict->message;
    EXPECT_EQ(result->verdict->reason_code, "emulated");
    EXPECT_FALSE(result->measurement);
    EXPECT_FALSE(result->screening);
    ASSERT_TRUE(result->verification);
    EXPECT_TRUE(result->verification->passed);
    for (const CaseReport& report : result->verification->cases) {
      EXPECT_THAT(report.case_label, Not(HasSubstr("timed"))) << "timed sizes are for hardware";
    }
    EXPECT_EQ(result->environment["device"]["emulated"], true);
  }
}

TEST_F(EmulatedUnit, RejectsAWrongKernel) {
  unit.candidate = TwiceUnderTest(*task, "cpu", TwiceKernel("y[i] = 3 * x[i];"));
  const auto result = runner->Run(unit, blobs, {}, {});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->verdict);
  EXPECT_EQ(result->verdict->verdict, Verdict::kIncorrect) << result->verdict->message;
}

TEST_F(EmulatedUnit, ARerunPassesAsEmulated) {
  unit.kind = UnitKind::kRerun;
  const auto result = runner->Run(unit, blobs, {}, {});
  ASSERT_TRUE(result.ok()) << result.status();
  const RerunOutcome outcome = JudgeRerun({}, *result);
  EXPECT_TRUE(outcome.passed) << outcome.reason;
  EXPECT_TRUE(outcome.emulated);
  EXPECT_EQ(outcome.evidence["status"], "emulated");
}

TEST_F(EmulatedUnit, PrefersTheRealDevice) {
  unit.device_model.clear();
  unit.measure = false;
  const auto result = runner->Run(unit, blobs, {}, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->environment["device"].contains("emulated"));
}

TEST_F(EmulatedDevice, ItsFileIsReadStrictly) {
  const auto problem = [&](const std::string& text) {
    const auto read = ReadEmulators(Write("e.json", text));
    EXPECT_FALSE(read.ok()) << text;
    return std::string(read.status().message());
  };
  EXPECT_THAT(problem("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(problem("{}"), HasSubstr("devices"));
  EXPECT_THAT(problem(R"({"devices": {"hip:0": {}}})"), HasSubstr("devices.hip:0.command"));
  EXPECT_THAT(problem(R"({"devices": {"hip:0": {"command": []}}})"), HasSubstr("program"));
  EXPECT_THAT(problem(R"({"devices": {"hip:0": {"command": ["x"], "comand": 1}}})"),
              HasSubstr("comand"));
  EXPECT_THAT(problem(R"({"devices": {"hip:0": {"command": ["x"], "read_only": ["opt"]}}})"),
              HasSubstr("absolute path"));
  EXPECT_THAT(problem(R"({"devices": {"hip:0": {"command": ["x"], "environment": {"A": 1}}}})"),
              HasSubstr("environment"));
  EXPECT_TRUE(absl::IsNotFound(ReadEmulators("/nonexistent/e.json").status()));
}

}  // namespace
}  // namespace fettle
