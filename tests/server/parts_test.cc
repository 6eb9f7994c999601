// SPDX-License-Identifier: Apache-2.0
// Pieces of the server on their own: access, events, options, the local worker's supervision.

#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/status_macros.h"
#include "proto/channel.h"
#include "server/access.h"
#include "server/convert.h"
#include "server/event_hub.h"
#include "server/executor.h"
#include "server/job_measures.h"
#include "server/job_options.h"
#include "server/local_worker.h"
#include "tests/fakes/temporary_folder.h"

namespace fettle {
namespace {

TEST(AccessTest, TheUnixSocketNeedsNoToken) {
  const Access access;
  EXPECT_TRUE(access.CheckPeer("unix:", "", AccessRole::kOperate).ok());
  EXPECT_EQ(access.CheckPeer("ipv4:127.0.0.1:5", "", AccessRole::kRead).code(),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(access.CheckPeer("ipv4:127.0.0.1:5", "Bearer ", AccessRole::kRead).code(),
            absl::StatusCode::kUnauthenticated);
}

TEST(AccessTest, RefusesAReadableOrMalformedTokenFile) {
  const TemporaryFolder folder;
  const std::string path = folder.str() + "/tokens.json";
  std::ofstream(path) << R"({"tokens": [{"name": "a", "role": "king", "token": "x"}]})";
  chmod(path.c_str(), 0644);
  EXPECT_EQ(Access::Load(path).status().code(), absl::StatusCode::kPermissionDenied);
  chmod(path.c_str(), 0600);
  const absl::Status malformed = Access::Load(path).status();
  EXPECT_EQ(malformed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(StatusText(malformed).find("tokens[0]: role"), std::string::npos) << malformed;
}

TEST(ChannelTest, FlagsWinOverEnvironmentOverFile) {
  const TemporaryFolder folder;
  const std::string path = folder.str() + "/client.json";
  std::ofstream(path) << R"({"endpoint": "file:1", "token": "from-file", "ca_file": "ca"})";
  chmod(path.c_str(), 0600);
  setenv("FETTLE_CLIENT_CONFIG", path.c_str(), 1);
  setenv("FETTLE_ENDPOINT", "environment:1", 1);
  auto options = ResolveEndpoint({});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->endpoint, "environment:1");
  EXPECT_EQ(options->token, "from-file");
  EXPECT_EQ(options->ca_file, "ca");
  options = ResolveEndpoint({.endpoint = "flag:1", .token = "from-flag"});
  EXPECT_EQ(options->endpoint, "flag:1");
  EXPECT_EQ(options->token, "from-flag");
  chmod(path.c_str(), 0640);
  EXPECT_EQ(ResolveEndpoint({}).status().code(), absl::StatusCode::kPermissionDenied);
  unsetenv("FETTLE_CLIENT_CONFIG");
  unsetenv("FETTLE_ENDPOINT");
  for (const char* token : {"\xC3\xA9", "two\nlines", "a b", "tab\t"}) {
    EXPECT_EQ(OpenChannel({.endpoint = "127.0.0.1:1", .token = token}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(OpenChannel({.endpoint = "127.0.0.1:1"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(EventHubTest, RingsOnlyThatJobAndForgetsTheGone) {
  EventHub hub;
  std::atomic<int> a{0};
  std::atomic<int> b{0};
  const auto keep = hub.Subscribe("a", [&] { ++a; });
  {
    const auto gone = hub.Subscribe("b", [&] { ++b; });
    hub.Ring("b");
  }
  hub.Ring("b");
  hub.Ring("a");
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 1);
  hub.Close();
  EXPECT_EQ(a, 2);
  EXPECT_TRUE(hub.closed());
}

TEST(ExecutorTest, RefusesBeyondItsQueueAndRunsTheRest) {
  std::atomic<int> ran{0};
  {
    Executor executor("test", 1, 2);
    std::atomic<bool> begun{false};
    std::atomic<bool> go{false};
    ASSERT_TRUE(executor.Post([&] {
      begun = true;
      while (!go) std::this_thread::yield();
      ++ran;
    }));
    while (!begun) std::this_thread::yield();
    int accepted = 0;
    while (executor.Post([&] { ++ran; })) ++accepted;
    EXPECT_EQ(accepted, 2);
    EXPECT_TRUE(executor.PostUrgent([&] { ++ran; }));
    go = true;
    executor.Stop();
    EXPECT_EQ(ran, accepted + 2);
    EXPECT_FALSE(executor.Post([&] { ++ran; }));
  }
}

TEST(SecretsTest, RemovesSeedsAndHeldOutDetails) {
  const auto shown = WithoutSecrets(nlohmann::json::parse(R"({
    "verification": {"seeds": [1], "cases": [
      {"case": "checked/0", "describe": "n=1"}, {"case": "held_out/1", "describe": "n=77"}]},
    "verdict": {"case": "held_out/1", "evidence": {"class": "odd", "n": 77}}, "seed": 5})"));
  EXPECT_EQ(shown.dump().find("77"), std::string::npos) << shown;
  EXPECT_FALSE(shown.contains("seed"));
  EXPECT_FALSE(shown["verification"].contains("seeds"));
  EXPECT_EQ(shown["verification"]["cases"][0]["describe"], "n=1");
  EXPECT_EQ(shown["verdict"]["evidence"]["class"], "odd");
}

TEST(PagingTest, TokensComeBack) {
  const auto token = ParseTimeToken(TimeToken(123, "j1:x"));
  ASSERT_TRUE(token.ok());
  EXPECT_EQ(token->first, 123);
  EXPECT_EQ(token->second, "j1:x");
  EXPECT_FALSE(ParseTimeToken("abc").ok());
  EXPECT_FALSE(ParseTimeToken("-1:x").ok());
  EXPECT_EQ(*PageSize(0), 100);
  EXPECT_EQ(*PageSize(100'000), 500);
  EXPECT_FALSE(PageSize(-1).ok());
}

TEST(LocalWorkerTest, IsStartedAgainAndEndsWithTheServer) {
  const TemporaryFolder folder;
  const std::string log = folder.str() + "/starts";
  LocalWorker worker({"/bin/sh", "-c", "echo x >> " + log + "; exec sleep 1000"});
  const auto wait = [&](pid_t other) {
    for (int i = 0; i < 10'000; ++i) {
      const pid_t pid = worker.pid();
      if (pid != 0 && pid != other) return pid;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return pid_t{0};
  };
  const pid_t first = wait(0);
  ASSERT_GT(first, 0);
  kill(first, SIGKILL);
  const pid_t second = wait(first);
  ASSERT_GT(second, 0);
  worker.Stop();
  EXPECT_NE(kill(second, 0), 0);
}

TEST(LocalWorkerTest, IsLeftWhenEveryStartEndsWithAnError) {
  const TemporaryFolder folder;
  const std::string log = folder.str() + "/starts";
  LocalWorker worker({"/bin/sh", "-c", "echo x >> " + log + "; exit 3"});
  for (int i = 0; i < 30'000 && !worker.gave_up(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_TRUE(worker.gave_up());
  std::ifstream in(log);
  const std::string starts{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(starts, "x\nx\nx\nx\n");
  worker.Stop();
}

}  // namespace
}  // namespace fettle
