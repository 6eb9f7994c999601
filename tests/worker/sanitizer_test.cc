// SPDX-License-Identifier: Apache-2.0

// With a stand-in that prints what compute-sanitizer prints; the real one needs a GPU.

#include "worker/sanitizer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace fettle {
namespace {

using ::testing::HasSubstr;
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
  // Warnings are no errors; errors that it names nowhere are no pass.
  EXPECT_EQ(
      Read("========= Warning: Race reported between Write access at f()+0x70 and Read access\n"
           "========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)\n")
          .outcome,
      Outcome::kPassed);
  EXPECT_EQ(Read("========= ERROR SUMMARY: 2 errors\n").outcome, Outcome::kNotRun);
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
  // What names no kernel is no finding of one.
  const SanitizerFinding internal = Read(
      "========= COMPUTE-SANITIZER\n"
      "========= Internal Sanitizer Error: The Sanitizer could not patch that module\n"
      "========= ERROR SUMMARY: 1 error\n");
  EXPECT_EQ(internal.outcome, Outcome::kNotRun);
  EXPECT_THAT(internal.message, HasSubstr("could not patch"));
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
  auto words = SanitizerWords(findings);
  EXPECT_EQ(words["memcheck"], "passed");
  EXPECT_EQ(words["racecheck"], "not_run: Error: Device not supported");
  EXPECT_FALSE(SanitizerVerdict(findings));
  std::ifstream in(log);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(text, "ran\nran\nran\nran\n");
}

TEST_F(SanitizeTest, ATooLongRunIsNotRun) {
  const auto findings = Sanitize(
      {"/bin/true"},
      {.program = StandIn("sleep 60\n"), .tools = {"memcheck"}, .limit = std::chrono::seconds(1)},
      {});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].outcome, Outcome::kNotRun);
  EXPECT_THAT(findings[0].message, HasSubstr("time limit"));
}

TEST_F(SanitizeTest, HandsEveryCallToOneProcess) {
  const std::string log = folder_ + "/log";
  Replay call;
  call.code_object = "code";
  call.symbols = {"twice"};
  const auto findings = SanitizeCalls(
      {call, call}, "/opt/fettle-runner", "cuda:3",
      {.program = StandIn("echo \"$@\" >> " + log + "\n[ -s $5 ] && [ -s $7 ] && echo there >> " +
                          log + "\necho '========= ERROR SUMMARY: 0 errors'\n"),
       .tools = {"memcheck"}},
      {});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].outcome, Outcome::kPassed) << findings[0].message;
  std::ifstream in(log);
  std::string command, there;
  std::getline(in, command);
  std::getline(in, there);
  EXPECT_THAT(command, ::testing::MatchesRegex("/opt/fettle-runner --device cuda:3 --replay "
                                               "[^ ]*/3.json --replay [^ ]*/5.json"));
  EXPECT_EQ(there, "there");
  // Nothing is left of them.
  EXPECT_FALSE(std::filesystem::exists(command.substr(command.rfind(' ') + 1)));
}

TEST_F(SanitizeTest, FindsTheProgramBesideCuda) {
  std::filesystem::create_directories(folder_ + "/bin");
  const std::string script = StandIn("echo '========= ERROR SUMMARY: 0 errors'\n");
  std::filesystem::rename(script, folder_ + "/bin/compute-sanitizer");
  setenv("CUDA_HOME", folder_.c_str(), 1);
  const auto found = Sanitize({"/bin/true"}, {.tools = {"memcheck"}}, {});
  unsetenv("CUDA_HOME");
  EXPECT_EQ(found.at(0).outcome, Outcome::kPassed) << found.at(0).message;
  setenv("FETTLE_COMPUTE_SANITIZER", "/nonexistent/compute-sanitizer", 1);
  const auto named = Sanitize({"/bin/true"}, {.tools = {"memcheck"}}, {});
  unsetenv("FETTLE_COMPUTE_SANITIZER");
  EXPECT_EQ(named.at(0).outcome, Outcome::kNotRun);
  EXPECT_THAT(named.at(0).message, HasSubstr("not installed"));
}

TEST(SanitizerVerdict, IsIncorrectWithTheFirstFinding) {
  const auto verdict = SanitizerVerdict({{"memcheck", Outcome::kPassed, ""},
                                         {"initcheck", Outcome::kNotRun, "no summary"},
                                         {"racecheck", Outcome::kFailed, "Race, at k()+0x10"}});
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->verdict, Verdict::kIncorrect);
  EXPECT_EQ(verdict->stage, Stage::kConfirm);
  EXPECT_EQ(verdict->reason_code, "sanitizer");
  EXPECT_THAT(verdict->message, HasSubstr("racecheck found: Race, at k()+0x10"));
  EXPECT_EQ(verdict->evidence["sanitizers"]["initcheck"], "not_run: no summary");
  EXPECT_FALSE(SanitizerVerdict(NotSanitized("no GPU")));
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
