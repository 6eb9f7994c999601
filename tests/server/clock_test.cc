// SPDX-License-Identifier: Apache-2.0
// A wall clock that somebody sets, while the server runs and between two of its starts: budgets,
// leases and claims go by the monotonic one.

#include <atomic>
#include <thread>

#include <gmock/gmock.h>

#include "fettle/v1/proposals.grpc.pb.h"
#include "tests/fakes/jumping_clock.h"
#include "tests/server/server_fixture.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::chrono::hours kTenYears{24 * 3'650};
constexpr std::int64_t kBudgetMs = 600'000;

class ClockTest : public ServerTest {
 protected:
  void Begin(FakeWorker::Script script) {
    ServerOptions options = Options();
    options.proposer_kinds.push_back("external");
    options.proposers = [lists = options.proposers](const std::string& kind, const Task& task,
                                                    const Target& target,
                                                    const ProposerOptions& rest) {
      return (kind == "external" ? DefaultProposers() : lists)(kind, task, target, rest);
    };
    options.clock = &clock_;
    StartServer(std::move(options));
    proposals_ = v1::Proposals::NewStub(channel_);
    StartWorker(std::move(script));
  }
  void End() {
    worker_.reset();
    proposals_.reset();
    server_.reset();
  }
  void TearDown() override { End(); }  // Before the clock.
  std::string Start(const std::string& proposer = "tuner", std::int64_t budget_ms = kBudgetMs) {
    v1::SubmitJobRequest request = Request("");
    request.set_proposer(proposer);
    if (proposer == "external") request.set_task_blob(PackTaskFiles(ScaleTask(1)));
    request.mutable_budget()->set_wall_ms(budget_ms);
    return Submit(request).id();
  }
  void ExpectWholeJob(const std::string& id) {
    Watch(id);
    const v1::Job job = GetJob(id);
    EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED) << job.message();
    EXPECT_THAT(job.message(), Not(HasSubstr("time of")));
    EXPECT_EQ(job.spent().candidates(), kCandidates);
    EXPECT_GE(job.spent().wall_ms(), 0);
    EXPECT_LT(job.spent().wall_ms(), kBudgetMs);
  }
  bool Claim(const std::string& job, const std::string& holder) {
    grpc::ClientContext context;
    v1::ClaimDirectionRequest request;
    request.set_job_id(job);
    request.set_direction("tiling");
    request.set_holder(holder);
    request.set_minutes(30);
    v1::ClaimDirectionResponse response;
    const grpc::Status status = proposals_->ClaimDirection(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.granted();
  }

  JumpingClock clock_;
  std::unique_ptr<v1::Proposals::Stub> proposals_;
};

TEST_F(ClockTest, AJobNeitherEndsNorGoesOnForAWallClockThatIsSet) {
  std::atomic<int> units = 0;
  Begin([this, &units](const WorkUnit& unit) {
    clock_.SetWall(++units % 2 == 0 ? -kTenYears : kTenYears);
    return HonestAnswer(unit);
  });
  const std::string id = Start();
  ExpectWholeJob(id);
  EXPECT_EQ(worker_->leased().size(), 1U + kCandidates + 2U) << "no lease ran out";
}

TEST_F(ClockTest, AJobIsTakenUpByAServerWhoseClockWasSetMeanwhile) {
  for (const std::chrono::hours set : {-kTenYears, kTenYears}) {
    clock_.SetWall({});
    std::atomic<int> units = 0;
    Begin([&units](const WorkUnit& unit) -> FakeAnswer {
      if (++units > 4) return {};  // Held.
      return HonestAnswer(unit);
    });
    const std::string id = Start();
    ASSERT_TRUE(worker_->WaitForLeases(5));
    clock_.MoveOn(std::chrono::minutes(3));  // Of its ten.
    while (GetJob(id).spent().wall_ms() < 180'000) std::this_thread::yield();
    End();
    clock_.SetWall(set);
    Begin(HonestAnswer);
    ExpectWholeJob(id);
    EXPECT_GE(GetJob(id).spent().wall_ms(), 180'000) << "what was spent stays spent";
    End();
  }
}

// Waiting once stored nothing, so that a crash gave the time back.
TEST_F(ClockTest, TheTimeOfAJobThatOnlyWaitsIsStored) {
  Begin(HonestAnswer);
  const std::string id = Start("external");
  while (GetJob(id).stage() != "search") std::this_thread::yield();
  clock_.MoveOn(std::chrono::minutes(4));
  while (GetJob(id).spent().wall_ms() < 240'000) std::this_thread::yield();
  clock_.MoveOn(std::chrono::minutes(7));
  Watch(id);
  EXPECT_THAT(GetJob(id).message(), HasSubstr("stopped: the time of 600 s is over"));
}

TEST_F(ClockTest, ClaimsRunOutByTheirMinutesAlone) {
  Begin(HonestAnswer);
  const std::string id = Start("external", /*budget_ms=*/36'000'000);
  while (GetJob(id).stage() != "search") std::this_thread::yield();
  EXPECT_TRUE(Claim(id, "a"));
  for (const std::chrono::hours set : {kTenYears, -kTenYears}) {
    clock_.SetWall(set);
    EXPECT_FALSE(Claim(id, "b"));
  }
  clock_.MoveOn(std::chrono::minutes(5));
  EXPECT_FALSE(Claim(id, "b"));
  clock_.MoveOn(std::chrono::minutes(26));
  EXPECT_TRUE(Claim(id, "b"));
  // A server that starts with a clock ten years earlier: no claim reaches so far.
  End();
  Begin(HonestAnswer);
  EXPECT_TRUE(Claim(id, "c"));
}

}  // namespace
}  // namespace fettle
