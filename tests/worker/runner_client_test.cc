// SPDX-License-Identifier: Apache-2.0
#include "worker/runner_client.h"

#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "device/gpu_registry.h"
#include "worker/lane.h"
#include "worker/runner_protocol.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

std::string EvilRunner() { return std::string(FETTLE_TEST_BIN_DIR) + "/evil_runner"; }

RunnerClient::Options Evil(bool bubblewrap = true) {
  RunnerClient::Options options;
  options.sandbox.runner_path = EvilRunner();
  options.sandbox.memory_bytes = std::int64_t{256} << 20;
  options.sandbox.threads = 64;
  options.sandbox.use_bubblewrap = bubblewrap;
  return options;
}

RunRequest Request(const std::string& how) {
  RunRequest request;
  request.schedule = how;
  request.want_outputs = false;
  request.launch_limit = std::chrono::seconds(5);
  return request;
}

// With bubblewrap, and with the runner's own namespaces.
class RunnerClientTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { Restart(); }
  void Restart() {
    auto started = RunnerClient::Start(Evil(GetParam()), {});
    ASSERT_TRUE(started.ok()) << started.status();
    client = *std::move(started);
  }
  absl::StatusOr<RunObservation> Run(const std::string& how) {
    return client->RunCase(Request(how));
  }
  // Runs `how`, expects the status, and that a fresh runner is healthy.
  void ExpectEnd(const std::string& how, Code code, const std::string& text) {
    const auto seen = Run(how);
    EXPECT_EQ(seen.status().code(), code) << seen.status();
    EXPECT_THAT(std::string(seen.status().message()), HasSubstr(text));
    EXPECT_FALSE(client->alive());
    EXPECT_EQ(Run("fine").status().code(), Code::kAborted);
    EXPECT_NE(kill(client->pid(), 0), 0) << "the process is still there";
    Restart();
    EXPECT_TRUE(client->CheckHealth().ok());
    EXPECT_TRUE(Run("fine").ok());
  }
  std::unique_ptr<RunnerClient> client;
};

TEST_P(RunnerClientTest, AnswersManyRequests) {
  EXPECT_EQ(client->device().id, "null");
  for (int i = 0; i < 20; ++i) {
    const auto seen = Run("fine");
    ASSERT_TRUE(seen.ok()) << seen.status();
    EXPECT_EQ(seen->guard_violation, "fine");
  }
  const auto module = client->LoadModule(std::string(100'000, 'c'), {"k"});
  ASSERT_TRUE(module.ok());
  EXPECT_EQ(*module, 100'000);
}

TEST_P(RunnerClientTest, KeepsRefusalsApartFromDeath) {
  EXPECT_EQ(client->UnloadModule(9).code(), Code::kInvalidArgument);
  EXPECT_TRUE(client->alive());
  EXPECT_TRUE(Run("fine").ok());
}

TEST_P(RunnerClientTest, CarriesBytesBothWays) {
  RunRequest request = Request("fine");
  BoundTensor output;
  output.name = "y";
  output.role = Role::kOut;
  output.dtype = DType::kU8;
  output.shape = {300'000};
  output.strides = {1};
  request.bound_case.tensors.push_back(output);
  request.files["a.npy"] = std::string(300'000, '\xfe');
  request.want_outputs = true;
  const auto seen = client->RunCase(request);
  ASSERT_TRUE(seen.ok()) << seen.status();
  ASSERT_EQ(seen->outputs.size(), 1u);
  EXPECT_EQ(seen->outputs[0], std::vector<std::uint8_t>(300'000, 0xfe));
}

TEST_P(RunnerClientTest, NamesTheSignal) { ExpectEnd("segv", Code::kAborted, "SIGSEGV"); }
TEST_P(RunnerClientTest, NoticesAnExit) { ExpectEnd("exit", Code::kAborted, "exit code 0"); }
TEST_P(RunnerClientTest, NoticesAClosedChannel) {
  ExpectEnd("close", Code::kAborted, "closed its channel");
}
TEST_P(RunnerClientTest, DistrustsAnythingElseOnTheChannel) {
  ExpectEnd("garbage", Code::kAborted, "protocol");
}
TEST_P(RunnerClientTest, EndsAnEndlessLoop) {
  RunRequest request = Request("spin");
  request.launch_limit = std::chrono::milliseconds(200);
  const auto start = std::chrono::steady_clock::now();
  const auto seen = client->RunCase(request);
  EXPECT_EQ(seen.status().code(), Code::kDeadlineExceeded) << seen.status();
  EXPECT_THAT(std::string(seen.status().message()), HasSubstr("within 200 ms"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_FALSE(client->alive());
}
TEST_P(RunnerClientTest, StopsAForkBombAtItsFirstFork) {
  ExpectEnd("fork", Code::kAborted, "SIGSYS");
}
TEST_P(RunnerClientTest, StopsAnExec) { ExpectEnd("exec", Code::kAborted, "SIGSYS"); }
TEST_P(RunnerClientTest, StopsASocket) { ExpectEnd("socket", Code::kAborted, "SIGSYS"); }
TEST_P(RunnerClientTest, StopsAKill) { ExpectEnd("kill_parent", Code::kAborted, "SIGSYS"); }
TEST_P(RunnerClientTest, StopsAMemoryHog) {
  const auto seen = Run("hog");  // At its limit or at the watch, whichever comes first.
  EXPECT_EQ(seen.status().code(), Code::kAborted) << seen.status();
  EXPECT_FALSE(client->alive());
}
TEST_P(RunnerClientTest, StopsAHogOfMemoryFiles) {
  ExpectEnd("hog_files", Code::kAborted, "bytes of memory");
}
TEST_P(RunnerClientTest, StopsAThreadBomb) {
  const auto seen = Run("threads");
  EXPECT_EQ(seen.status().code(), Code::kAborted) << seen.status();
  EXPECT_FALSE(client->alive());
}
TEST_P(RunnerClientTest, HidesFilesAndEnvironment) {
  EXPECT_EQ(Run("write_file")->guard_violation, "refused");
  // bubblewrap itself sets PWD and nothing else is there.
  EXPECT_EQ(Run("environment")->guard_violation, GetParam() ? "PWD=/tmp" : "empty");
  if (GetParam()) {
    EXPECT_EQ(Run("read_home")->guard_violation, "hidden");
  }
}
// Canaries: what lies around a worker and must not be seen by a candidate. (The network: a socket
// ends the process; see above.) A normal request still works.
TEST_P(RunnerClientTest, HidesEverythingThatACandidateMayNotKnow) {
  if (!GetParam()) GTEST_SKIP() << "without bubblewrap files of the same user stay readable";
  const std::string database = fmt::format("{}fettle-canary-{}.db", ::testing::TempDir(), getpid());
  std::ofstream(database) << "held out: rows=77 cols=1003";
  ASSERT_EQ(setenv("FETTLE_TOKEN", "a secret of the server", 1), 0);
  Restart();
  unsetenv("FETTLE_TOKEN");
  for (const std::string& path :
       {std::string("/etc/passwd"), std::string("/etc/shadow"), std::string("/etc/hostname"),
        database, std::string("/root/.ssh/id_rsa"), fmt::format("/proc/{}/environ", getpid()),
        fmt::format("/proc/{}/cmdline", getpid()), std::string("/dev/nvidia0"),
        std::string("/dev/nvidia1"), std::string("/dev/kfd"), std::string("/dev/dri/renderD129"),
        std::string("/dev/mem")}) {
    EXPECT_EQ(Run("read:" + path)->guard_violation, "hidden") << path;
  }
  // The runner, and the process that holds the sandbox.
  const auto processes = Run("processes");
  ASSERT_TRUE(processes.ok());
  EXPECT_LE(std::stoi(*processes->guard_violation), 3);
  EXPECT_EQ(Run("environment")->guard_violation, "PWD=/tmp");
  EXPECT_TRUE(client->CheckHealth().ok());
  EXPECT_EQ(Run("fine")->guard_violation, "fine");
  std::remove(database.c_str());
}
// Two GPUs' nodes (files here): a runner that was leased one of them opens that one only.
TEST_P(RunnerClientTest, HidesTheSecondGpu) {
  if (!GetParam()) GTEST_SKIP() << "without bubblewrap every node of /dev can be tried";
  const std::string root = fmt::format("{}fettle-two-gpus-{}", ::testing::TempDir(), getpid());
  const auto write = [&root](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  };
  for (const char* node : {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"}) write(node, "node");
  for (const std::string n : {"0", "1"}) {
    write("/proc/driver/nvidia/gpus/" + n + "/information",
          "GPU UUID: \t GPU-uuid-" + n + "\nDevice Minor: \t " + n + "\n");
  }
  DeviceInfo leased{.id = "cuda:1"}, other{.id = "cuda:0"};
  leased.uuid = "uuid-1";
  other.uuid = "uuid-0";
  const GpuView view = GpuViewOf(leased, root);
  RunnerClient::Options options = Evil();
  options.sandbox.device_binds = view.nodes;
  options.sandbox.environment = view.environment;
  auto started = RunnerClient::Start(std::move(options), {});
  ASSERT_TRUE(started.ok()) << started.status();
  const auto read = [&](const std::string& path) {
    const auto seen = (*started)->RunCase(Request("read:" + root + path));
    EXPECT_TRUE(seen.ok()) << seen.status();
    return seen.ok() ? *seen->guard_violation : "";
  };
  EXPECT_EQ(read("/dev/nvidia1"), "readable");
  EXPECT_EQ(read("/dev/nvidiactl"), "readable");
  EXPECT_EQ(read("/dev/nvidia0"), "hidden");
  const auto environment = (*started)->RunCase(Request("variable:CUDA_VISIBLE_DEVICES"));
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_EQ(environment->guard_violation, "GPU-uuid-1");
  // As the worker starts it.
  const SandboxOptions sandbox =
      SandboxFor({.runner_path = EvilRunner()}, "cuda:1", {other, leased}, root);
  EXPECT_EQ(sandbox.device_binds, view.nodes);
  EXPECT_EQ(sandbox.environment, view.environment);
  EXPECT_EQ(sandbox.runner_args, (std::vector<std::string>{"--device", "cuda:0"}));
  std::filesystem::remove_all(root);
}
TEST_P(RunnerClientTest, PassesOnADeviceFault) {
  TimeRequest request;
  const auto seen = client->TimeCase(request);
  EXPECT_EQ(seen.status().code(), Code::kAborted);
  EXPECT_THAT(std::string(seen.status().message()), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  EXPECT_FALSE(client->alive());
}
TEST_P(RunnerClientTest, NoticesAKillFromOutsideWhileItWaits) {
  std::thread killer([pid = client->pid()] {
    // The kill may come before or within the request; both must end it.
    kill(-pid, SIGKILL);
  });
  const auto seen = Run("spin");
  killer.join();
  EXPECT_EQ(seen.status().code(), Code::kUnavailable) << seen.status();
  EXPECT_THAT(std::string(seen.status().message()), HasSubstr("SIGKILL"));
}
TEST_P(RunnerClientTest, StopsWhenAsked) {
  std::stop_source source;
  client->set_stop(source.get_token());
  std::thread stopper([&source] { source.request_stop(); });
  const auto seen = Run("spin");
  stopper.join();
  EXPECT_EQ(seen.status().code(), Code::kCancelled) << seen.status();
  EXPECT_FALSE(client->alive());
}

INSTANTIATE_TEST_SUITE_P(Sandboxes, RunnerClientTest, ::testing::Values(true, false),
                         [](const auto& sandbox) {
                           return sandbox.param ? "Bubblewrap" : "Unshare";
                         });

TEST(RunnerClientStart, SaysThatTheRunnerIsMissing) {
  RunnerClient::Options options;
  options.sandbox.runner_path = "/nowhere/fettle-runner";
  const auto started = RunnerClient::Start(options, {});
  EXPECT_EQ(started.status().code(), Code::kUnavailable);
  EXPECT_THAT(std::string(started.status().message()), HasSubstr("/nowhere/fettle-runner"));
}

TEST(RunnerClientStart, SaysThatTheDeviceCannotBeOpened) {
  RunnerClient::Options options;
  options.sandbox.runner_path = std::string(FETTLE_BIN_DIR) + "/fettle-runner";
  if (access(options.sandbox.runner_path.c_str(), X_OK) != 0) GTEST_SKIP() << "no fettle-runner";
  options.sandbox.runner_args = {"--device", "tpu:0"};
  const auto started = RunnerClient::Start(options, {});
  EXPECT_EQ(started.status().code(), Code::kUnavailable);
  EXPECT_THAT(std::string(started.status().message()), HasSubstr("open device \"tpu:0\""));
}

TEST(SandboxLevelTest, NamesWhatThereIs) {
  SandboxLevel level;
  EXPECT_EQ(level.name(), "rlimits");
  level.seccomp = true;
  EXPECT_EQ(level.name(), "seccomp");
  level.bubblewrap = true;
  EXPECT_EQ(level.name(), "bubblewrap+seccomp");
}

}  // namespace
}  // namespace fettle
