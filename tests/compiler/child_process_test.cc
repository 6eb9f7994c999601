// SPDX-License-Identifier: Apache-2.0
#include "compiler/child_process.h"

#include <csignal>
#include <latch>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fettle {
namespace {

using ::testing::HasSubstr;

ChildCommand Shell(std::string script) {
  return {.argv = {"sh", "-c", std::move(script)},
          .environment = {"PATH=/usr/bin:/bin"},
          .limits = {.wall = std::chrono::seconds(20)}};
}

TEST(ChildProcess, ReturnsOutputAndExitCode) {
  const auto result = RunChild(Shell("echo out; echo err >&2; exit 3"), {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_EQ(result->output, "out\nerr\n");
  EXPECT_EQ(result->Ending(), "exit code 3");
  EXPECT_GT(result->elapsed.count(), 0);
}

TEST(ChildProcess, FeedsStandardInputAndInheritsNoEnvironment) {
  setenv("FETTLE_TEST_SECRET", "leak", 1);
  ChildCommand command = Shell("cat; env");
  command.input = std::string(300000, 'x');
  command.limits.output_bytes = 1 << 20;
  const auto result = RunChild(command, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->output.substr(0, 300000), command.input);
  EXPECT_THAT(result->output.substr(300000), testing::Not(HasSubstr("FETTLE_TEST_SECRET")));
}

TEST(ChildProcess, KeepsAtMostTheOutputLimit) {
  ChildCommand command = Shell("yes | head -c 1000000");
  command.limits.output_bytes = 1000;
  const auto result = RunChild(command, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->ok());
  EXPECT_EQ(result->output.size(), 1000u);
  EXPECT_TRUE(result->output_truncated);
}

TEST(ChildProcess, KillsTheGroupAtTheTimeLimit) {
  ChildCommand command = Shell("sleep 600 & echo $!; wait");
  command.limits.wall = std::chrono::milliseconds(300);
  const auto result = RunChild(command, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->timed_out);
  EXPECT_FALSE(result->ok());
  const pid_t grandchild = std::stoi(result->output);
  for (int i = 0; i < 1000 && kill(grandchild, 0) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // init reaps it.
    std::string state;
    if (FILE* file = std::fopen(fmt::format("/proc/{}/stat", grandchild).c_str(), "r")) {
      char line[256] = {};
      if (std::fgets(line, sizeof line, file) != nullptr) state = line;
      std::fclose(file);
    }
    if (state.empty() || state.find(") Z ") != std::string::npos) return;  // Dead, not yet reaped.
  }
  EXPECT_NE(kill(grandchild, 0), 0) << "the grandchild outlived its group";
}

TEST(ChildProcess, StopsOnRequest) {
  std::stop_source stop;
  std::jthread stopper([&stop] { stop.request_stop(); });
  const auto result = RunChild(Shell("sleep 600"), stop.get_token());
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
}

TEST(ChildProcess, EnforcesMemoryAndProcessorLimits) {
  ChildCommand spin = Shell("while :; do :; done");
  spin.limits.cpu_seconds = 1;
  const auto spun = RunChild(spin, {});
  ASSERT_TRUE(spun.ok());
  EXPECT_TRUE(spun->signal == SIGXCPU || spun->signal == SIGKILL) << spun->Ending();

  ChildCommand hog = Shell("x=$(head -c 60000000 /dev/zero | tr '\\0' 'x'); echo done");
  hog.limits.address_space_bytes = 40 << 20;
  const auto hogged = RunChild(hog, {});
  ASSERT_TRUE(hogged.ok());
  EXPECT_FALSE(hogged->ok());
}

TEST(ChildProcess, SaysWhichProgramIsMissing) {
  const auto result = RunChild({.argv = {"/nonexistent/compiler"}}, {});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("/nonexistent/compiler"));
}

TEST(ChildProcess, DiesBySignal) {
  const auto result = RunChild(Shell("kill -SEGV $$"), {});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->signal, SIGSEGV);
  EXPECT_THAT(result->Ending(), HasSubstr("signal 11"));
}

TEST(ChildProcess, RunsManyAtOnce) {
  std::vector<std::jthread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([i, &good] {
      const auto result = RunChild(Shell(fmt::format("echo {}; exit {}", i, i)), {});
      if (result.ok() && result->exit_code == i && result->output == fmt::format("{}\n", i)) ++good;
    });
  }
  threads.clear();
  EXPECT_EQ(good, 16);
}

}  // namespace
}  // namespace fettle
