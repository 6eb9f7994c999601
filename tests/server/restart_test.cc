// SPDX-License-Identifier: Apache-2.0
// A server that stops between any two commits goes on from the last one.

#include <atomic>
#include <set>
#include <thread>

#include "store/candidate_store.h"
#include "store/store.h"
#include "tests/fakes/captured_log.h"
#include "tests/server/server_fixture.h"

namespace fettle {
namespace {

class RestartTest : public ServerTest {
 protected:
  // Attempts that were given back and count towards a unit's end, read after the server is gone.
  int CountedFailures() {
    StoreOptions options;
    options.data_dir = folder_.path() / "data";
    const auto store = Store::Open(std::move(options));
    FETTLE_CHECK(store.ok());
    int count = 0;
    FETTLE_CHECK((*store)
                     ->Read([&](Connection& db) -> absl::Status {
                       FETTLE_ASSIGN_OR_RETURN(
                           Statement select,
                           db.Prepare("SELECT count(*) FROM units WHERE state = 'returned' AND "
                                      "reason NOT LIKE 'not counted:%'"));
                       FETTLE_RETURN_IF_ERROR(select.Step().status());
                       count = static_cast<int>(select.Int64(0));
                       return absl::OkStatus();
                     })
                     .ok());
    return count;
  }
  // Units with a stored result, read after the server is gone.
  std::set<std::string> StoredUnits() {
    StoreOptions options;
    options.data_dir = folder_.path() / "data";
    const auto store = Store::Open(std::move(options));
    FETTLE_CHECK(store.ok());
    std::set<std::string> ids;
    const absl::Status read = (*store)->Read([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(Statement select, db.Prepare("SELECT unit_id FROM evaluations"));
      while (true) {
        FETTLE_ASSIGN_OR_RETURN(const bool more, select.Step());
        if (!more) return absl::OkStatus();
        ids.insert(select.Text(0));
      }
    });
    FETTLE_CHECK(read.ok());
    return ids;
  }
};

// The commit with number `point` and all later ones fail, as after kill -9; then a new server takes
// over. Every point at which a job of this kind commits is tried; each first confirmation leaves
// its candidate open.
TEST_F(RestartTest, ResumesFromEveryCommit) {
  const auto answer = [](const WorkUnit& unit) {
    return unit.id.ends_with(".confirm") ? Noisy(unit, SpeedOf(unit.candidate))
                                         : HonestAnswer(unit);
  };
  int points_reached = 0;
  for (std::int64_t point = 2; point < 200; ++point) {
    std::filesystem::remove_all(folder_.path() / "data");
    std::atomic<bool> crashed{false};
    ServerOptions options = Options();
    options.before_commit = [&](std::int64_t number) -> absl::Status {
      if (number < point) return absl::OkStatus();
      crashed = true;
      return absl::UnavailableError("the process is dead");
    };
    StartServer(options);
    StartWorker(answer);
    v1::SubmitJobRequest request = Request("r1");
    std::string job_id;
    {
      grpc::ClientContext context;
      v1::SubmitJobResponse response;
      if (stub_->SubmitJob(&context, request, &response).ok()) job_id = response.job().id();
    }
    // Until the crash, or the end of the job, which ends the test.
    while (!crashed && !job_id.empty() && GetJob(job_id).state() != v1::JOB_STATE_SUCCEEDED) {
      std::this_thread::yield();
    }
    const bool finished = !crashed;
    worker_.reset();
    server_.reset();
    const std::set<std::string> stored = StoredUnits();

    StartServer();
    StartWorker(answer);
    const v1::Job job = Submit(request);  // The same one, or new where nothing was stored.
    if (!job_id.empty()) {
      EXPECT_EQ(job.id(), job_id);
    }
    const std::vector<v1::JobEvent> events = Watch(job.id());
    ASSERT_FALSE(events.empty()) << "point " << point;
    std::int64_t expected = 1;
    std::set<std::int64_t> judged;
    int accepted = 0;
    for (const v1::JobEvent& event : events) {
      EXPECT_EQ(event.sequence(), expected++) << "point " << point;
      accepted += event.has_variant_accepted() ? 1 : 0;
      if (!event.has_candidate_judged()) continue;
      EXPECT_TRUE(judged.insert(event.candidate_judged().ordinal()).second)
          << "judged twice, point " << point;
    }
    const v1::Job ended = GetJob(job.id());
    EXPECT_EQ(ended.state(), v1::JOB_STATE_SUCCEEDED) << ended.message() << " point " << point;
    EXPECT_EQ(ended.candidate_count(), kCandidates) << "point " << point;
    EXPECT_EQ(ended.spent().candidates(), kCandidates) << "point " << point;
    // A unit given back goes to the end of what was asked for, so BLOCK 4 may come after BLOCK 6
    // and is no win then.
    EXPECT_TRUE(accepted == 1 || accepted == 2) << accepted << " point " << point;
    EXPECT_NEAR(ended.best_ratio_declared(), 2.0, 0.01) << "point " << point;
    for (const std::string& lease : worker_->leased()) {
      EXPECT_FALSE(stored.contains(lease.substr(0, lease.rfind(':'))))
          << lease << " was evaluated again, point " << point;
    }
    worker_.reset();
    server_.reset();
    // The registration, eight evaluations, two confirmations for each win (and one of what another
    // win made idle), of 2 ms each: charged once.
    const auto units = static_cast<int>(StoredUnits().size());
    EXPECT_GE(units, 1 + kCandidates + 2 * accepted) << "point " << point;
    EXPECT_LE(units, 2 + kCandidates + 2 * accepted) << "point " << point;
    EXPECT_EQ(ended.spent().device_ms(), 2 * units) << "point " << point;
    if (finished) break;
    ++points_reached;
    if (HasFailure()) break;
  }
  EXPECT_GT(points_reached, 20);
}

// Nothing but the return itself wakes the dispatcher here: heartbeats are an hour apart.
TEST_F(RestartTest, AReturnedUnitIsHandedOutAtOnce) {
  ServerOptions options = Options();
  options.dispatcher.heartbeat = options.dispatcher.heartbeat_lost = std::chrono::hours(1);
  StartServer(options);
  std::atomic<int> returned{0};
  StartWorker([&](const WorkUnit& unit) {
    if (unit.kind == UnitKind::kEvaluate && returned.fetch_add(1) == 2) {
      return FakeAnswer{.return_reason = "the device is busy"};
    }
    return HonestAnswer(unit);
  });
  const v1::Job job = Submit(Request("r1"));
  Watch(job.id());  // Fails after 30 s.
  EXPECT_EQ(GetJob(job.id()).state(), v1::JOB_STATE_SUCCEEDED);
}

TEST_F(RestartTest, AFullDiskPausesTheJobAndLosesNothing) {
  const CapturedLog log;
  std::atomic<bool> full{false};
  std::atomic<int> refused{0};
  ServerOptions options = Options();
  options.before_commit = [&](std::int64_t) -> absl::Status {
    if (!full) return absl::OkStatus();
    ++refused;
    return absl::ResourceExhaustedError("no space left on the disk");
  };
  StartServer(options);
  std::atomic<int> evaluated{0};
  StartWorker([&](const WorkUnit& unit) {
    if (unit.kind == UnitKind::kEvaluate && evaluated.fetch_add(1) == 2) full = true;
    return HonestAnswer(unit);
  });
  const v1::Job job = Submit(Request("r1"));
  std::string message;
  for (int i = 0; i < 100'000 && message.find("paused") == std::string::npos; ++i) {
    message = GetJob(job.id()).message();
  }
  EXPECT_NE(message.find("no space left"), std::string::npos) << message;
  {
    grpc::ClientContext context;
    v1::SubmitJobResponse response;
    EXPECT_EQ(stub_->SubmitJob(&context, Request("r2"), &response).error_code(),
              grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
  // The job and the dispatcher try again and again, and say so once.
  const int tries = refused + 6;
  while (refused < tries) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(log.Count("job_paused"), 1);
  EXPECT_LE(log.Count("leases_not_stored"), 1);
  full = false;
  Watch(job.id());
  const v1::Job ended = GetJob(job.id());
  EXPECT_EQ(ended.state(), v1::JOB_STATE_SUCCEEDED) << ended.message();
  EXPECT_EQ(ended.candidate_count(), kCandidates);
  EXPECT_EQ(ended.spent().device_ms(), 2 * (1 + kCandidates + 2));
  EXPECT_EQ(log.Count("job_goes_on"), 1);
  worker_.reset();
  server_.reset();  // Before the log.
}

TEST_F(RestartTest, ACleanStopInTheMiddleIsResumed) {
  StartServer();
  StartWorker([](const WorkUnit& unit) {
    if (unit.kind == UnitKind::kEvaluate && unit.candidate.values.at("BLOCK") == 5) {
      return FakeAnswer{};
    }
    return HonestAnswer(unit);
  });
  const v1::Job job = Submit(Request("r1"));
  ASSERT_TRUE(worker_->WaitForLeases(6));
  server_.reset();
  worker_.reset();
  EXPECT_EQ(CountedFailures(), 0) << "a server's stop is no failure of what its workers held";
  StartServer();
  StartWorker(HonestAnswer);
  Watch(job.id());
  EXPECT_EQ(GetJob(job.id()).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(GetJob(job.id()).candidate_count(), kCandidates);
}

}  // namespace
}  // namespace fettle
