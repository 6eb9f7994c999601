// SPDX-License-Identifier: Apache-2.0

// With a stand-in that prints what compute-sanitizer prints; the real one needs a GPU.

#include "worker/sanitizer.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace fettle {
namespace {

using Outcome = SanitizerFinding::Outcome;

constexpr char kClean[] = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n";
constexpr char kWrite[] =
    "========= COMPUTE-SANITIZER\n"
    "========= Invalid __global__ write of size 4 bytes\n"
    "=========     at scale(float *, int)+0x90 in kernel.cu:3\n"
    "=========     by thread (255,0,0) in block (0,0,0)\n"
    "========= ERROR SUMMARY: 1 error\n";

SanitizerFinding Read(const std::string& output, const std::string& ending = "") {
  return ReadSanitizer("memcheck", output, ending, {"fettle_"});
}

TEST(ReadSanitizer, PassesOnlyWhatItCountedToTheEnd) {
  EXPECT_EQ(Read(kClean).outcome, Outcome::kPassed);
  EXPECT_EQ(
      Read("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n").outcome,
      Outcome::kPassed);
  EXPECT_EQ(Read("").outcome, Outcome::kNotRun);
  EXPECT_EQ(Read("========= COMPUTE-SANITIZER\n").outcome, Outcome::kNotRun);
  EXPECT_EQ(Read(kClean, "signal 9 (Killed)").outcome, Outcome::kNotRun);
}

TEST(ReadSanitizer, NamesTheFirstFindingAndItsKernel) {
  const SanitizerFinding found = Read(kWrite);
  EXPECT_EQ(found.outcome, Outcome::kFailed);
  EXPECT_EQ(found.message,
            "Invalid __global__ write of size 4 bytes, at scale(float *, int)+0x90 in kernel.cu:3");
  // A finding counts whatever became of the process.
  EXPECT_EQ(Read(kWrite, "exit code 5").outcome, Outcome::kFailed);
  const SanitizerFinding race = Read(
      "========= Error: Race reported between Write access at blocksum(float *)+0x70 in k.cu:9\n"
      "=========     and Read access at blocksum(float *)+0x60 in k.cu:9 [4 hazards]\n"
      "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n");
  EXPECT_EQ(race.outcome, Outcome::kFailed);
}

TEST(ReadSanitizer, RecordsARefusalAsNotRun) {
  const SanitizerFinding refused = Read(
      "========= COMPUTE-SANITIZER\n========= Error: Device not supported\n"
      "========= ERROR SUMMARY: 0 errors\n");
  EXPECT_EQ(refused.outcome, Outcome::kNotRun);
  EXPECT_EQ(refused.message, "Error: Device not supported");
}

TEST(ReadSanitizer, LeavesOutFettlesOwnKernels) {
  EXPECT_EQ(Read("========= Uninitialized __global__ memory read of size 4 bytes\n"
                 "=========     at fettle_digest(unsigned long)+0x10\n"
                 "========= ERROR SUMMARY: 1 error\n")
                .outcome,
            Outcome::kPassed);
}

class SanitizeTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  // A program that plays the sanitizer: runs `body` of sh with the tool's name as $tool.
  std::string StandIn(const std::string& body) {
    const std::string path = folder_ + "/compute-sanitizer";
    std::ofstream(path) << "#!/bin/sh\ntool=$2\nshift 6\n" << body;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  const std::string folder_ = fmt::format("{}fettle-sanitizer-{}", ::testing::TempDir(), getpid());
};

TEST_F(SanitizeTest, RunsEveryToolOverTheCommand) {
  const std::string log = folder_ + "/log";
  const auto findings =
      Sanitize({"/bin/sh", "-c", "echo ran >> " + log},
               {.program = StandIn("\"$@\"\n"
                                   "if [ $tool = racecheck ]; then\n"
                                   "  echo '========= Error: Device not supported'; exit 1; fi\n"
                                   "echo '========= ERROR SUMMARY: 0 errors'\n")},
               {});
  ASSERT_EQ(findings.size(), 4u);
  const nlohmann::json json = ToJson(findings);
  EXPECT_EQ(json["memcheck"], "passed");
  EXPECT_EQ(json["racecheck"], "not_run: Error: Device not supported");
  std::ifstream in(log);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(text, "ran\nran\nran\nran\n");
}

TEST_F(SanitizeTest, NeverPassesWithoutTheProgram) {
  for (const SanitizerFinding& one :
       Sanitize({"/bin/true"}, {.program = folder_ + "/missing"}, {})) {
    EXPECT_EQ(one.outcome, Outcome::kNotRun);
    EXPECT_FALSE(one.message.empty());
  }
}

}  // namespace
}  // namespace fettle
