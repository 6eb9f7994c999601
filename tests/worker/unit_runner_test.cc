// SPDX-License-Identifier: Apache-2.0
#include "worker/unit_runner.h"

#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/fakes/memory_blob_store.h"
#include "tests/fakes/twice_task.h"
#include "worker/unit_device_time.h"

namespace fettle {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;

class UnitRunnerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    UnitRunnerOptions options;
    options.runner_path = std::string(FETTLE_BIN_DIR) + "/fettle-runner";
    options.device_ids = {"cpu"};
    auto created = UnitRunner::Create(options);
    ASSERT_TRUE(created.ok()) << created.status();
    runner = created->release();
  }
  static void TearDownTestSuite() {
    delete runner;
    runner = nullptr;
  }
  void SetUp() override {
    ASSERT_NE(runner, nullptr);
    UseTask(kTwiceTask);
  }

  void UseTask(const std::string& yaml) {
    const TaskFiles files = TwiceTask(yaml);
    std::vector<TaskProblem> problems;
    auto parsed = Task::Parse(files, &problems);
    ASSERT_TRUE(parsed.ok()) << FormatProblems(problems);
    task = *parsed;
    task_blob = *blobs.Put(PackTaskFiles(files));
  }

  KernelUnderTest Under(const std::string& source) { return TwiceUnderTest(*task, "cpu", source); }
  WorkUnit Unit(UnitKind kind, const std::string& source) {
    WorkUnit unit;
    unit.id = "u";
    unit.kind = kind;
    unit.task_digest = task->digest();
    unit.task_blob = task_blob;
    unit.target = "cpu";
    unit.candidate = Under(source);
    unit.denominator = Under(task->baseline().source);
    unit.seed = 5;
    unit.held_out_seed = 6;
    unit.time_cap_s = 0.5;
    return unit;
  }
  absl::StatusOr<UnitResult> Run(const WorkUnit& unit, std::stop_token stop = {}) {
    return runner->Run(unit, blobs, {}, stop);
  }
  // The verdict of evaluating `source` without measuring; then the honest kernel must still pass.
  VerdictRecord Verdict_(const std::string& source) {
    WorkUnit unit = Unit(UnitKind::kEvaluate, source);
    unit.measure = false;
    const auto result = Run(unit);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {};
    EXPECT_TRUE(result->verdict) << "nothing was decided";
    WorkUnit honest = Unit(UnitKind::kEvaluate, TwiceKernel("y[i] = x[i] + x[i];"));
    honest.measure = false;
    const auto after = Run(honest);
    EXPECT_TRUE(after.ok()) << after.status();
    if (after.ok()) {
      EXPECT_FALSE(after->verdict) << after->verdict->message;
    }
    return result->verdict.value_or(VerdictRecord{});
  }

  static UnitRunner* runner;
  std::shared_ptr<const Task> task;
  MemoryBlobStore blobs;
  std::string task_blob;
};
UnitRunner* UnitRunnerTest::runner = nullptr;

TEST_F(UnitRunnerTest, MeasuresAnHonestCandidate) {
  const WorkUnit unit = Unit(UnitKind::kEvaluate, TwiceKernel("y[i] = x[i] + x[i];"));
  std::vector<std::string> lines;
  absl::StatusOr<UnitResult> result;
  // This machine may be too busy for a while: for a calibrated clock, for enough blocks, or for a
  // screening to see that the two are equal.
  for (int attempt = 0; attempt < 5; ++attempt) {
    lines.clear();
    result = runner->Run(unit, blobs, [&](std::string line) { lines.push_back(line); }, {});
    ASSERT_TRUE(result.ok()) << result.status();
    if (!result->verdict) break;
    const VerdictRecord& verdict = *result->verdict;
    ASSERT_TRUE(verdict.verdict == Verdict::kUnmeasurable || verdict.reason_code == "screened")
        << verdict.message;
  }
  if (result->verdict) GTEST_SKIP() << "too busy to measure: " << result->verdict->message;
  ASSERT_TRUE(result->verification);
  EXPECT_TRUE(result->verification->passed);
  ASSERT_TRUE(result->measurement);
  ASSERT_EQ(result->measurement->cases.size(), 1u);
  const CaseMeasurement& timed = result->measurement->cases[0];
  EXPECT_EQ(timed.case_label, "timed/0");
  EXPECT_GT(timed.a_median_ns, 0);
  EXPECT_GT(timed.b_median_ns, 0);
  EXPECT_GT(timed.bytes_per_s, 0);
  EXPECT_GT(timed.floor_ns, 0);
  EXPECT_TRUE(result->screening);
  ASSERT_EQ(result->builds.size(), 1u);
  EXPECT_TRUE(blobs.Get(result->builds[0].code_object).ok());
  EXPECT_GT(result->device_ns, 0);
  EXPECT_GT(result->wall_ns, 0);
  EXPECT_THAT(result->environment.dump(), HasSubstr("\"cpu\""));
  EXPECT_THAT(lines, Contains("compiling"));
  EXPECT_THAT(lines, Contains("timing timed/0"));
}

TEST_F(UnitRunnerTest, ReportsWhatTheCompilerSays) {
  const VerdictRecord record = Verdict_(TwiceKernel("y[i] = 2 * z[i];"));
  EXPECT_EQ(record.verdict, Verdict::kCompileError);
  EXPECT_EQ(record.reason_code, "compile_rejected");
  EXPECT_THAT(record.message, HasSubstr("kernel.cu"));
}

TEST_F(UnitRunnerTest, RejectsAWrongKernel) {
  const VerdictRecord record = Verdict_(TwiceKernel("y[i] = 3 * x[i];"));
  EXPECT_EQ(record.verdict, Verdict::kIncorrect);
  EXPECT_EQ(record.stage, Stage::kVerify);
}

TEST_F(UnitRunnerTest, SurvivesACrash) {
  const VerdictRecord record =
      Verdict_(TwiceKernel("*reinterpret_cast<volatile float*>(64) = x[i]; y[i] = 2 * x[i];"));
  EXPECT_EQ(record.verdict, Verdict::kCrashed) << record.message;
}

TEST_F(UnitRunnerTest, SurvivesAnEndlessLoop) {
  const VerdictRecord record =
      Verdict_(TwiceKernel("volatile int on = 1; while (on) {} y[i] = 2 * x[i];"));
  EXPECT_EQ(record.verdict, Verdict::kTimeout) << record.message;
}

TEST_F(UnitRunnerTest, SurvivesAForkBomb) {
  const VerdictRecord record = Verdict_(
      TwiceKernel("while (fork() >= 0) {} y[i] = 2 * x[i];", "extern \"C\" int fork();\n"));
  EXPECT_THAT(record.verdict, AnyOf(Verdict::kCrashed, Verdict::kRefused)) << record.message;
}

TEST_F(UnitRunnerTest, SurvivesAMemoryHog) {
  const VerdictRecord record = Verdict_(TwiceKernel(
      "for (;;) { char* p = (char*)malloc(1 << 28); for (int k = 0; k < (1 << 28); k += "
      "4096) p[k] = 1; }",
      "extern \"C\" void* malloc(unsigned long);\n"));
  EXPECT_THAT(record.verdict, AnyOf(Verdict::kCrashed, Verdict::kTimeout, Verdict::kRefused))
      << record.message;
}

TEST_F(UnitRunnerTest, ConfirmsOnHeldOutCasesWithCheckMode) {
  WorkUnit unit = Unit(UnitKind::kConfirm, TwiceKernel("y[i] = x[i] + x[i];"));
  unit.measure = false;
  const auto result = Run(unit);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->verdict) << result->verdict->message;
  ASSERT_TRUE(result->verification);
  EXPECT_THAT(result->verification->check_mode, HasSubstr("passed"));
  int held_out = 0;
  for (const CaseReport& report : result->verification->cases) {
    held_out += report.case_label.starts_with("held_out");
    if (report.case_label.starts_with("held_out")) {
      EXPECT_EQ(report.describe, "");
    }
  }
  EXPECT_EQ(held_out, 5);  // Two, and three on edges.
}

TEST_F(UnitRunnerTest, CheckModeFindsARaceThatNumbersHide) {
  // Every thread writes the same word of shared memory, then reads its own value back.
  WorkUnit unit =
      Unit(UnitKind::kConfirm,
           TwiceKernel("__shared__ volatile float last; last = x[i]; const float read = last; "
                       "y[i] = x[i] + x[i] + (read - read);"));
  unit.measure = false;
  const auto result = Run(unit);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->verdict);
  EXPECT_EQ(result->verdict->verdict, Verdict::kIncorrect);
  EXPECT_EQ(result->verdict->reason_code, "check_mode") << result->verdict->message;
}

// A confirmation that would win goes under the sanitizer; here the cpu stands in for a GPU and a
// script for the program.
class SanitizedWinner : public UnitRunnerTest {
 protected:
  void SetUp() override {
    UnitRunnerTest::SetUp();
    std::filesystem::create_directories(folder_);
    UnitRunnerOptions options;
    options.runner_path = std::string(FETTLE_BIN_DIR) + "/fettle-runner";
    options.device_ids = {"cpu"};
    options.sanitize = [this](const std::vector<Replay>& calls, std::stop_token stop) {
      for (const Replay& call : calls) {
        labels_.push_back(call.request.bound_case.label);
        EXPECT_FALSE(call.code_object.empty());
      }
      return SanitizeCalls(
          calls, "/opt/fettle-runner", "cuda:0",
          {.program = folder_ + "/compute-sanitizer", .limit = std::chrono::seconds(1)}, stop);
    };
    auto created = UnitRunner::Create(options);
    ASSERT_TRUE(created.ok()) << created.status();
    sanitizing_ = *std::move(created);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The result of confirming a kernel that is far faster than its denominator.
  UnitResult Confirm(const std::string& script, const std::string& denominator) {
    const std::string program = folder_ + "/compute-sanitizer";
    std::ofstream(program) << "#!/bin/sh\ntool=$2\n" << script;
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    WorkUnit unit = Unit(UnitKind::kConfirm, TwiceKernel("y[i] = x[i] + x[i];"));
    unit.denominator = Under(TwiceKernel(denominator));
    unit.time_cap_s = 20;
    for (int attempt = 0;; ++attempt) {
      labels_.clear();
      const auto result = sanitizing_->Run(unit, blobs, {}, {});
      EXPECT_TRUE(result.ok()) << result.status();
      if (!result.ok()) return UnitResult();
      // This machine may be too busy to measure on for a while.
      const bool busy = result->verdict && result->verdict->verdict == Verdict::kUnmeasurable;
      if (!busy || attempt == 4) return *result;
    }
  }
  // It waits long enough for the busiest machine to see the difference.
  const std::string slow_ =
      "float s = x[i]; for (int k = 0; k < 40; ++k) { volatile float v = s; s = v; } "
      "y[i] = s + s;";
  const std::string folder_ = fmt::format("{}fettle-winner-{}", ::testing::TempDir(), getpid());
  std::unique_ptr<UnitRunner> sanitizing_;
  std::vector<std::string> labels_;
};

TEST_F(SanitizedWinner, PassesWithEveryToolRecorded) {
  const UnitResult result = Confirm(
      "[ $tool = synccheck ] && exec sleep 20\n"
      "[ $tool = racecheck ] && { echo '========= Error: Device not supported'; exit 1; }\n"
      "echo '========= ERROR SUMMARY: 0 errors'\n",
      slow_);
  ASSERT_FALSE(result.verdict) << result.verdict->message;
  // With the data in the cache it was timed apart.
  ASSERT_TRUE(result.measurement);
  const nlohmann::json& hot = result.environment["hot"];
  ASSERT_EQ(hot.size(), result.measurement->cases.size()) << hot;
  for (const CaseMeasurement& one : result.measurement->cases) {
    EXPECT_GT(hot[one.case_label]["baseline_ns"], 0) << hot;
    EXPECT_GT(hot[one.case_label]["candidate_ns"], 0) << hot;
    EXPECT_GT(hot[one.case_label]["ratio"], 0) << hot;
  }
  auto said = result.verification->sanitizers;
  EXPECT_TRUE(result.verification->passed);
  EXPECT_EQ(said["memcheck"], "passed");
  EXPECT_EQ(said["initcheck"], "passed");
  EXPECT_EQ(said["racecheck"], "not_run: Error: Device not supported");
  EXPECT_THAT(said["synccheck"], HasSubstr("not_run: it ended by the time limit"));
  // Small checked cases only, the largest first; never a held-out one.
  EXPECT_THAT(labels_, ::testing::ElementsAre("checked/1", "checked/0"));
}

TEST_F(SanitizedWinner, IsIncorrectWhereAToolFindsSomething) {
  const UnitResult result = Confirm(
      "[ $tool = memcheck ] && printf '%s\\n' "
      "'========= Invalid __global__ read of size 4 bytes' "
      "'=========     at twice(const float *, float *, int)+0x90' "
      "'========= ERROR SUMMARY: 1 error' && exit 0\n"
      "echo '========= ERROR SUMMARY: 0 errors'\n",
      slow_);
  ASSERT_TRUE(result.verdict);
  EXPECT_EQ(result.verdict->verdict, Verdict::kIncorrect);
  EXPECT_EQ(result.verdict->reason_code, "sanitizer");
  EXPECT_THAT(result.verdict->message,
              HasSubstr("Invalid __global__ read of size 4 bytes, at twice"));
  EXPECT_FALSE(result.verification->passed);
  EXPECT_THAT(result.verification->sanitizers.at("memcheck"), HasSubstr("failed: Invalid"));
}

TEST_F(SanitizedWinner, AnAbsentProgramIsNoPass) {
  std::filesystem::create_directories(folder_);
  sanitizing_.reset();
  UnitRunnerOptions options;
  options.runner_path = std::string(FETTLE_BIN_DIR) + "/fettle-runner";
  options.device_ids = {"cpu"};
  options.sanitize = [](const std::vector<Replay>& calls, std::stop_token stop) {
    return SanitizeCalls(calls, "/opt/fettle-runner", "cuda:0",
                         {.program = "/nonexistent/compute-sanitizer"}, stop);
  };
  auto created = UnitRunner::Create(options);
  ASSERT_TRUE(created.ok()) << created.status();
  sanitizing_ = *std::move(created);
  const UnitResult result = Confirm("", slow_);
  ASSERT_FALSE(result.verdict) << result.verdict->message;
  ASSERT_EQ(result.verification->sanitizers.size(), 4u);
  for (const auto& [tool, said] : result.verification->sanitizers) {
    EXPECT_THAT(said, ::testing::StartsWith("not_run: ")) << tool;
  }
}

TEST_F(SanitizedWinner, OthersAreLeftAlone) {
  const UnitResult result = Confirm("exit 3\n", "y[i] = x[i] + x[i];");
  ASSERT_TRUE(result.verification);
  EXPECT_TRUE(labels_.empty());
  if (result.verdict) return;  // Too busy a machine to measure on.
  EXPECT_EQ(result.verification->sanitizers.at("memcheck"),
            "not_run: only would-be winners go under it");
}

// Ceilings that were taken while something else used the machine are too low, and an honest kernel
// is faster than they allow.
class LowCeilings : public UnitRunnerTest {
 protected:
  void SetUp() override {
    UnitRunnerTest::SetUp();
    Reopen();
    const auto measured = own_->CeilingsOf("cpu", {});
    ASSERT_TRUE(measured.ok()) << measured.status();
    reached_ = (*measured)["bytes_per_s"];
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Reopen() {
    UnitRunnerOptions options;
    options.runner_path = std::string(FETTLE_BIN_DIR) + "/fettle-runner";
    options.device_ids = {"cpu"};
    options.cache_dir = folder_;
    auto created = UnitRunner::Create(options);
    ASSERT_TRUE(created.ok()) << created.status();
    own_ = *std::move(created);
  }
  // What is kept, divided by `by`.
  void Lower(double by) {
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (!entry.path().filename().string().starts_with("ceilings-")) continue;
      nlohmann::json kept = nlohmann::json::parse(std::ifstream(entry.path()));
      for (const char* rate : {"bytes_per_s", "cached_bytes_per_s"}) {
        kept["ceilings"][rate] = kept["ceilings"][rate].get<double>() / by;
      }
      std::ofstream(entry.path()) << kept.dump();
    }
    Reopen();
  }
  const std::string folder_ = fmt::format("{}fettle-ceilings-{}", ::testing::TempDir(), getpid());
  std::unique_ptr<UnitRunner> own_;
  double reached_ = 0;
};

TEST_F(LowCeilings, AreMeasuredAgainInsteadOfRefusingAnHonestKernel) {
  Lower(1e5);
  WorkUnit unit = Unit(UnitKind::kEvaluate, TwiceKernel("y[i] = x[i] + x[i];"));
  unit.screen = false;
  const auto result = own_->Run(unit, blobs, {}, {});
  ASSERT_TRUE(result.ok()) << result.status();
  if (result->verdict) {
    EXPECT_NE(result->verdict->reason_code, "below_floor") << result->verdict->message;
  }
  // They are kept, for the next unit and the next process.
  Reopen();
  const auto kept = own_->CeilingsOf("cpu", {});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_GT((*kept)["bytes_per_s"].get<double>(), reached_ / 100);
}

TEST_F(LowCeilings, AFloorThatTheBaselineBeatsIsNone) {
  std::string yaml = kTwiceTask;
  const std::string work = "bytes: \"8*n\"";
  ASSERT_NE(yaml.find(work), std::string::npos);
  yaml.replace(yaml.find(work), work.size(), "bytes: \"80000*n\"");
  UseTask(yaml);
  WorkUnit unit = Unit(UnitKind::kEvaluate, TwiceKernel("y[i] = x[i] + x[i];"));
  unit.screen = false;
  const auto result = own_->Run(unit, blobs, {}, {});
  ASSERT_TRUE(result.ok()) << result.status();
  if (result->verdict) {  // Too busy a machine to measure on.
    EXPECT_NE(result->verdict->reason_code, "below_floor") << result->verdict->message;
    return;
  }
  ASSERT_TRUE(result->measurement);
  EXPECT_EQ(result->measurement->cases[0].floor_ns, 0);
  EXPECT_THAT(result->verification->warnings, Contains(HasSubstr("no floor")));
}

TEST_F(UnitRunnerTest, InlineAssemblyIsTheContractsChoice) {
  const std::string source = TwiceKernel("asm(\"\"); y[i] = 2 * x[i];");
  auto result = Run(Unit(UnitKind::kEvaluate, source));
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->verdict);
  EXPECT_EQ(result->verdict->reason_code, "policy_asm");
  std::string yaml = kTwiceTask;
  const std::size_t contract = yaml.find("contract: {");
  ASSERT_NE(contract, std::string::npos);
  yaml.insert(contract + std::string("contract: {").size(), "inline_assembly: true, ");
  UseTask(yaml);
  WorkUnit unit = Unit(UnitKind::kEvaluate, source);
  unit.measure = false;
  result = Run(unit);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->verdict) << result->verdict->message;
}

// Its launches agree, so that only the first outputs travel; the others must not be taken for
// zeros.
TEST_F(UnitRunnerTest, ADeclaredNondeterministicKernelMayAgreeWithItself) {
  std::string yaml = kTwiceTask;
  const std::string stable = "deterministic: true";
  ASSERT_NE(yaml.find(stable), std::string::npos);
  yaml.replace(yaml.find(stable), stable.size(), "deterministic: false");
  UseTask(yaml);
  WorkUnit unit = Unit(UnitKind::kEvaluate, TwiceKernel("y[i] = x[i] + x[i];"));
  unit.measure = false;
  const auto result = Run(unit);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->verdict) << result->verdict->message;
}

TEST_F(UnitRunnerTest, RegistersATaskThatIsInOrder) {
  const auto result = Run(Unit(UnitKind::kRegister, ""));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->verdict) << result->verdict->message;
}

TEST_F(UnitRunnerTest, CompilesAlone) {
  const auto result = Run(Unit(UnitKind::kCompile, TwiceKernel("y[i] = x[i] + x[i];")));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->builds.size(), 1u);
  EXPECT_FALSE(result->verification);
}

TEST_F(UnitRunnerTest, RefusesValuesAgainstAConstraint) {
  WorkUnit unit = Unit(UnitKind::kEvaluate, TwiceKernel("y[i] = 2 * x[i];"));
  unit.candidate.values["BLOCK"] = 4096;
  const auto result = Run(unit);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->verdict);
  EXPECT_EQ(result->verdict->verdict, Verdict::kRefused);
  EXPECT_EQ(result->verdict->reason_code, "constraints");
  EXPECT_EQ(result->verdict->message,
            "the values break the kernel's constraint \"BLOCK <= target.max_block\"");
}

TEST_F(UnitRunnerTest, TellsItsOwnTroubleFromTheCandidates) {
  WorkUnit unit = Unit(UnitKind::kEvaluate, TwiceKernel("y[i] = 2 * x[i];"));
  unit.target = "sm_90a";
  EXPECT_EQ(Run(unit).status().code(), absl::StatusCode::kUnavailable);
  unit.target = "cpu";
  unit.device_model = "another machine";
  EXPECT_EQ(Run(unit).status().code(), absl::StatusCode::kUnavailable);
  unit.device_model.clear();
  unit.task_blob = std::string(64, 'a');
  EXPECT_EQ(Run(unit).status().code(), absl::StatusCode::kNotFound);
  unit.task_blob = task_blob;
  unit.only_case = "timed/9";
  EXPECT_EQ(Run(unit).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(UnitRunnerTest, StopsAtTheUnitsDeadlineAndWhenCancelled) {
  WorkUnit unit = Unit(UnitKind::kEvaluate, TwiceKernel("volatile int on = 1; while (on) {}"));
  unit.deadline_ms = 1500;
  EXPECT_EQ(Run(unit).status().code(), absl::StatusCode::kDeadlineExceeded);
  std::stop_source stop;
  std::jthread stopper([&stop] { stop.request_stop(); });
  unit.deadline_ms = 60'000;
  EXPECT_EQ(Run(unit, stop.get_token()).status().code(), absl::StatusCode::kCancelled);
}

// The cap of device time is a hard end, whatever the kernel does.
TEST_F(UnitRunnerTest, EndsAUnitAtItsCapOfDeviceTime) {
  for (const char* body : {"volatile int on = 1; while (on) {} y[i] = 2 * x[i];",
                           "for (volatile int k = 0; k < 20000000; ++k) {} y[i] = 2 * x[i];"}) {
    WorkUnit unit = Unit(UnitKind::kEvaluate, TwiceKernel(body));
    unit.device_cap_ms = 300;
    const auto result = Run(unit);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_TRUE(result->verdict);
    EXPECT_EQ(result->verdict->verdict, Verdict::kUnmeasurable) << result->verdict->message;
    EXPECT_EQ(result->verdict->reason_code, kDeviceTimeReason);
    EXPECT_EQ(result->device_ns, 300'000'000);
  }
  // Timing ends there, too: one whose launches are short.
  WorkUnit unit = Unit(UnitKind::kEvaluate, TwiceKernel("y[i] = x[i] + x[i];"));
  unit.screen = false;
  unit.device_cap_ms = 1;
  unit.only_case = "timed/0";
  const auto result = Run(unit);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(result->verdict);
  EXPECT_EQ(result->verdict->reason_code, kDeviceTimeReason) << result->verdict->message;
  EXPECT_LE(result->device_ns, 1'000'000);
  // One that keeps to it is not touched.
  WorkUnit honest = Unit(UnitKind::kEvaluate, TwiceKernel("y[i] = x[i] + x[i];"));
  honest.measure = false;
  honest.device_cap_ms = 60'000;
  const auto after = Run(honest);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_FALSE(after->verdict) << after->verdict->message;
}

TEST_F(UnitRunnerTest, AUnitThatIsStoppedSaysWhatItTookOfTheDevice) {
  WorkUnit unit =
      Unit(UnitKind::kEvaluate, TwiceKernel("volatile int on = 1; while (on) {} y[i] = 2 * x[i];"));
  unit.measure = false;
  unit.deadline_ms = 2'500;
  const auto late = Run(unit);
  EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_GT(DeviceNsOf(late.status()), 0);
  EXPECT_LE(DeviceNsOf(late.status()), 60'000'000'000);
}

TEST(UnitRunnerCreate, SaysThatTheRunnerIsMissing) {
  UnitRunnerOptions options;
  options.runner_path = "/nowhere/fettle-runner";
  options.device_ids = {"cpu"};
  const auto created = UnitRunner::Create(options);
  EXPECT_EQ(created.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(created.status().message()), HasSubstr("/nowhere/fettle-runner"));
}

}  // namespace
}  // namespace fettle
