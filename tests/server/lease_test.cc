// SPDX-License-Identifier: Apache-2.0
// Which worker gets a unit, and what a worker's end says about it.
#include <atomic>
#include <map>
#include <mutex>

#include <gmock/gmock.h>

#include "server/job_tokens.h"
#include "tests/fakes/store_rows.h"
#include "tests/server/server_fixture.h"

namespace fettle {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

class LeaseTest : public ServerTest {
 protected:
  std::unique_ptr<FakeWorker> Another(FakeWorker::Script script, FakeWorkerOptions options) {
    return std::make_unique<FakeWorker>(Connect({.endpoint = server_->endpoints().front()}),
                                        std::move(options), std::move(script));
  }
  static std::int64_t BlockOf(const WorkUnit& unit) { return unit.candidate.values.at("BLOCK"); }
  static nlohmann::json VerdictOf(const v1::Candidate& candidate) {
    return nlohmann::json::parse(candidate.verdict_json(), nullptr, false);
  }
};

TEST_F(LeaseTest, TakesOneDeathForNoFailureAndARepeatedOneForOne) {
  StartServer();
  FakeWorkerOptions options;
  options.slots = 4;
  StartWorker(
      [](const WorkUnit& unit) -> FakeAnswer {
        if (unit.kind == UnitKind::kEvaluate && BlockOf(unit) == 3) return {.die = true};
        return HonestAnswer(unit);
      },
      options);
  const v1::Job job = Submit(Request("deaths"));
  Watch(job.id());
  int abandoned = 0;
  for (const v1::Candidate& candidate : Candidates(job.id())) {
    const nlohmann::json verdict = VerdictOf(candidate);
    if (verdict["verdict"] != "UNMEASURABLE") continue;
    ++abandoned;
    EXPECT_EQ(candidate.values_json(), R"({"BLOCK":3})");
    EXPECT_EQ(verdict["reason_code"], "unit_abandoned");
    const nlohmann::json& attempts = verdict["evidence"]["attempts"];
    // The first death may be anybody's; three more, alone on a worker that works, are its own.
    ASSERT_EQ(attempts.size(), 4U) << attempts.dump(1);
    EXPECT_THAT(attempts[0]["reason"].get<std::string>(), HasSubstr("not counted: worker gone"));
    for (int i = 1; i < 4; ++i) {
      EXPECT_EQ(attempts[i]["reason"].get<std::string>().rfind("worker fake-1 is gone", 0), 0U);
    }
  }
  EXPECT_EQ(abandoned, 1) << "its neighbours on the worker are innocent";
}

TEST_F(LeaseTest, SurvivesWorkersThatDieAtRandom) {
  StartServer();
  FakeWorkerOptions options;
  options.slots = 4;
  std::atomic<int> calls{0};
  StartWorker(
      [&calls](const WorkUnit& unit) -> FakeAnswer {
        if (unit.kind != UnitKind::kRegister && ++calls % 3 == 0) return {.die = true};
        return HonestAnswer(unit);
      },
      options);
  const v1::Job job = Submit(Request("random deaths"));
  Watch(job.id());
  EXPECT_EQ(GetJob(job.id()).state(), v1::JOB_STATE_SUCCEEDED);
  for (const v1::Candidate& candidate : Candidates(job.id())) {
    EXPECT_NE(VerdictOf(candidate)["verdict"], "UNMEASURABLE") << candidate.verdict_json();
  }
}

TEST_F(LeaseTest, GivesUpAUnitThatNoWorkerSurvives) {
  StartServer();
  StartWorker([](const WorkUnit&) -> FakeAnswer { return {.die = true}; });
  const v1::Job job = Submit(Request("deadly task"));
  Watch(job.id());
  EXPECT_EQ(GetJob(job.id()).state(), v1::JOB_STATE_FAILED);
  EXPECT_THAT(worker_->leased().size(), AllOf(Ge(4U), Le(20U)));
}

TEST_F(LeaseTest, ConfirmsOnAnotherWorker) {
  StartServer();
  std::mutex mutex;
  std::map<std::int64_t, std::string> measured, confirmed;  // Worker by BLOCK.
  const auto script = [&](const std::string& name) {
    return [&, name](const WorkUnit& unit) {
      const std::lock_guard lock(mutex);
      if (unit.kind == UnitKind::kEvaluate) measured[BlockOf(unit)] = name;
      if (unit.kind == UnitKind::kConfirm) confirmed[BlockOf(unit)] = name;
      return HonestAnswer(unit);
    };
  };
  StartWorker(script("fake-1"), {.id = "fake-1", .slots = 2});
  const auto second = Another(script("fake-2"), {.id = "fake-2", .slots = 2});
  const v1::Job job = Submit(Request("two workers"));
  Watch(job.id());
  const std::lock_guard lock(mutex);
  ASSERT_FALSE(confirmed.empty());
  for (const auto& [block, worker] : confirmed) EXPECT_NE(worker, measured[block]) << block;
}

TEST_F(LeaseTest, SharesWhatThereIsAmongWideWorkers) {
  // Workers that never answer about a candidate, each of which could hold everything. Either may
  // get the task's registration.
  const auto never = [](const WorkUnit& unit) {
    return unit.kind == UnitKind::kRegister ? HonestAnswer(unit) : FakeAnswer{};
  };
  proposals_ = 40;
  StartServer();
  StartWorker(never, {.id = "fake-1", .slots = 64});
  const auto second = Another(never, {.id = "fake-2", .slots = 64});
  v1::SubmitJobRequest request = Request("wide workers");
  request.set_task_blob(PackTaskFiles(ScaleTask(40)));
  Submit(request);
  ASSERT_TRUE(worker_->WaitForLeases(15));
  EXPECT_TRUE(second->WaitForLeases(15)) << "the first one holds what the second could do";
}

TEST_F(LeaseTest, ConfirmsOnTheSameWorkerWhereThereIsNoOther) {
  StartServer();
  StartWorker(HonestAnswer);
  const v1::Job job = Submit(Request("one worker"));
  Watch(job.id());
  EXPECT_FALSE(Variants(job.id()).empty());
}

TEST_F(LeaseTest, KeepsToTheModelAndToolchainOfTheJob) {
  StartServer();
  StartWorker(HonestAnswer);
  const v1::Job job = Submit(Request("one kind"));
  ASSERT_TRUE(worker_->WaitForLeases(1));
  const auto other_tools =
      Another(HonestAnswer, {.id = "fake-2", .slots = 4, .compiler = "fake compiler 2"});
  const auto other_model =
      Another(HonestAnswer, {.id = "fake-3", .slots = 4, .model = "other cpu"});
  Watch(job.id());
  EXPECT_EQ(GetJob(job.id()).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_TRUE(other_tools->leased().empty());
  EXPECT_TRUE(other_model->leased().empty());
}

TEST(JobTokens, OpenOneJobUntilTheyAreRevoked) {
  TemporaryFolder folder;
  StoreOptions options;
  options.data_dir = folder.str() + "/data";
  auto store = Store::Open(std::move(options));
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE(InsertFakeJob(**store, "j1").ok());
  JobTokens tokens(JobTokenKind::kWorker);
  const auto token = tokens.Create(**store, "j1", SystemClock());
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(tokens.JobOf(*token), "j1");
  EXPECT_FALSE(tokens.JobOf(*token + "0").has_value());
  JobTokens after_restart(JobTokenKind::kWorker);
  ASSERT_TRUE(after_restart.Load(**store).ok());
  EXPECT_EQ(after_restart.JobOf(*token), "j1");
  ASSERT_TRUE(after_restart.Revoke(**store, "j1").ok());
  EXPECT_FALSE(after_restart.JobOf(*token).has_value());
  JobTokens later(JobTokenKind::kWorker);
  ASSERT_TRUE(later.Load(**store).ok());
  EXPECT_FALSE(later.JobOf(*token).has_value());
  // What is for proposals is another thing.
  JobTokens other(JobTokenKind::kPropose);
  const auto proposes = other.Create(**store, "j1", SystemClock());
  ASSERT_TRUE(proposes.ok()) << proposes.status();
  ASSERT_TRUE(later.Load(**store).ok());
  EXPECT_FALSE(later.JobOf(*proposes).has_value());
  EXPECT_EQ(other.JobOf(*proposes), "j1");
}

TEST_F(LeaseTest, RefusesAWorkersTokenForAnythingElse) {
  ServerOptions options = Options();
  options.listen = {"127.0.0.1:0"};
  StartServer(options);
  EndpointOptions endpoint;
  endpoint.endpoint = server_->endpoints().front();
  endpoint.token = "fwt-j1-000000000000000000000000000000000000000000000000";
  const auto stub = v1::Optimizer::NewStub(Connect(endpoint));
  grpc::ClientContext context;
  v1::ListJobsResponse response;
  const grpc::Status status = stub->ListJobs(&context, {}, &response);
  EXPECT_FALSE(status.ok()) << "on the socket too: whoever shows a token is held to it";
}

}  // namespace
}  // namespace fettle
