// SPDX-License-Identifier: Apache-2.0
// Workers without a device compile what waits for one, and do nothing else.
#include <algorithm>
#include <atomic>
#include <mutex>

#include <gmock/gmock.h>

#include "core/digest.h"
#include "server/limits.h"
#include "tests/server/server_fixture.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CompileAheadTest : public ServerTest {
 protected:
  std::unique_ptr<FakeWorker> Compiler(FakeWorker::Script script, FakeWorkerOptions options = {}) {
    options.compile_only = true;
    if (options.id == "fake-1") options.id = "compiler";
    options.slots = 4;
    auto worker = std::make_unique<FakeWorker>(Connect({.endpoint = server_->endpoints().front()}),
                                               std::move(options), std::move(script));
    return worker;
  }
  void AwaitWorkers(int count) {
    while (true) {
      grpc::ClientContext context;
      v1::ListWorkersResponse response;
      ASSERT_TRUE(stub_->ListWorkers(&context, {}, &response).ok());
      if (response.workers_size() >= count) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  static std::string KeyOf(const WorkUnit& unit) { return Sha256Hex(unit.candidate.digest); }
  static FakeAnswer Compiled(const WorkUnit& unit) {
    UnitResult result;
    result.unit_id = unit.id;
    result.attempt = unit.attempt;
    result.compiled[KeyOf(unit)] = Sha256Hex("object");
    return {.result = std::move(result)};
  }
};

TEST_F(CompileAheadTest, TheDevicesWorkerGetsWhatAnotherCompiled) {
  StartServer();
  std::atomic<int> compiled{0}, of_others{0}, with_builds{0}, wrong{0};
  const auto compiler = Compiler([&](const WorkUnit& unit) {
    ++(unit.kind == UnitKind::kCompile ? compiled : of_others);
    return Compiled(unit);
  });
  // Another compiler would make other objects.
  const auto other = Compiler(
      [&](const WorkUnit& unit) {
        ++of_others;
        return Compiled(unit);
      },
      {.id = "other", .compiler = "fake compiler 2"});
  AwaitWorkers(2);
  StartWorker(
      [&](const WorkUnit& unit) {
        // The first waits until something was compiled; more than two it may not hold.
        if (unit.kind == UnitKind::kEvaluate) compiler->WaitForLeases(1);
        if (unit.kind == UnitKind::kEvaluate && !unit.compiled.empty()) {
          ++with_builds;
          if (unit.compiled.size() != 1 || !unit.compiled.contains(KeyOf(unit))) ++wrong;
        }
        return HonestAnswer(unit);
      },
      {.slots = 64});
  const v1::Job job = Submit(Request("compile ahead"));
  Watch(job.id());
  EXPECT_EQ(GetJob(job.id()).state(), v1::JOB_STATE_SUCCEEDED) << GetJob(job.id()).message();
  EXPECT_EQ(Candidates(job.id()).size(), static_cast<std::size_t>(kCandidates));
  EXPECT_GE(compiled, 1) << "more than it may hold";
  EXPECT_EQ(with_builds, compiled);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(of_others, 0) << "it got what it cannot do, or what is of no use";
}

TEST_F(CompileAheadTest, ACompilerThatDiesOrFailsCostsNothing) {
  StartServer();
  std::atomic<int> calls{0};
  const auto compiler = Compiler([&](const WorkUnit& unit) -> FakeAnswer {
    switch (++calls % 4) {
      case 0:
        return {.die = true};
      case 1:
        return {.return_reason = "no room"};
      case 2:
        return {.result_text = "{"};
      default:
        return Compiled(unit);
    }
  });
  AwaitWorkers(1);
  StartWorker(
      [&](const WorkUnit& unit) {
        if (unit.kind == UnitKind::kEvaluate) compiler->WaitForLeases(1);
        return HonestAnswer(unit);
      },
      {.slots = 64});
  const v1::Job job = Submit(Request("bad compiler"));
  Watch(job.id());
  EXPECT_EQ(GetJob(job.id()).state(), v1::JOB_STATE_SUCCEEDED) << GetJob(job.id()).message();
  const std::vector<v1::Candidate> candidates = Candidates(job.id());
  EXPECT_EQ(candidates.size(), static_cast<std::size_t>(kCandidates));
  for (const v1::Candidate& candidate : candidates) {
    EXPECT_THAT(candidate.verdict_json(), Not(HasSubstr("UNMEASURABLE")));
  }
}

TEST_F(CompileAheadTest, ACompilerThatComesBackGoesOn) {
  StartServer();
  std::atomic<int> calls{0};
  std::mutex mutex;
  std::string died_with;
  // It dies with the first, and has its result when it is back.
  const auto compiler = Compiler(
      [&](const WorkUnit& unit) -> FakeAnswer {
        if (++calls > 1) return Compiled(unit);
        const std::lock_guard lock(mutex);
        died_with = unit.candidate.digest;
        return {.die = true};
      },
      {.keeps_held = true});
  AwaitWorkers(1);
  std::atomic<int> with_builds{0};
  std::atomic<bool> that_one{false};
  StartWorker(
      [&](const WorkUnit& unit) {
        if (unit.kind != UnitKind::kEvaluate) return HonestAnswer(unit);
        while (calls < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const std::lock_guard lock(mutex);
        if (!unit.compiled.empty()) ++with_builds;
        if (!unit.compiled.empty() && unit.candidate.digest == died_with) that_one = true;
        return HonestAnswer(unit);
      },
      {.slots = 2});
  const v1::Job job = Submit(Request("comes back"));
  Watch(job.id());
  EXPECT_EQ(GetJob(job.id()).state(), v1::JOB_STATE_SUCCEEDED) << GetJob(job.id()).message();
  EXPECT_GE(with_builds, 1);
  EXPECT_TRUE(that_one);
  const std::vector<std::string> leased = compiler->leased();
  EXPECT_EQ(std::count(leased.begin(), leased.end(), leased.front()), 1) << "it was told twice";
}

TEST_F(CompileAheadTest, AUnitThatEndsItsCompilersIsLeftToItsDevice) {
  StartServer();
  std::atomic<int> deaths{0};
  std::atomic<bool> waited{false};
  const auto compiler = Compiler([&](const WorkUnit&) -> FakeAnswer {
    ++deaths;
    return {.die = true};
  });
  AwaitWorkers(1);
  StartWorker(
      [&](const WorkUnit& unit) {
        EXPECT_TRUE(unit.compiled.empty());
        // Time for more deaths, if they did not end by themselves.
        if (unit.kind == UnitKind::kEvaluate && !waited.exchange(true)) {
          compiler->WaitForLeases(1);
          std::this_thread::sleep_for(std::chrono::milliseconds(500));
        }
        return HonestAnswer(unit);
      },
      {.slots = 64});
  const v1::Job job = Submit(Request("ends compilers"));
  Watch(job.id());
  EXPECT_EQ(GetJob(job.id()).state(), v1::JOB_STATE_SUCCEEDED) << GetJob(job.id()).message();
  EXPECT_GE(deaths, 1);
  EXPECT_LE(deaths, limits::kMaxCompilersLost * kCandidates);
}

TEST_F(CompileAheadTest, ACancelledJobIsNotCompiledFurther) {
  StartServer();
  const auto compiler = Compiler([](const WorkUnit&) -> FakeAnswer { return {}; });
  AwaitWorkers(1);
  // It holds what it got, so that others wait and are compiled.
  StartWorker(
      [&](const WorkUnit& unit) -> FakeAnswer {
        if (unit.kind == UnitKind::kRegister) return HonestAnswer(unit);
        return {};
      },
      {.slots = 64});
  const v1::Job job = Submit(Request("cancelled"));
  ASSERT_TRUE(compiler->WaitForLeases(1));
  grpc::ClientContext context;
  v1::CancelJobRequest request;
  request.set_job_id(job.id());
  v1::CancelJobResponse response;
  ASSERT_TRUE(stub_->CancelJob(&context, request, &response).ok());
  Watch(job.id());
  EXPECT_EQ(GetJob(job.id()).state(), v1::JOB_STATE_CANCELLED);
  for (int i = 0; i < 2000 && compiler->cancelled() < compiler->leased().size(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(compiler->cancelled(), compiler->leased().size());
  // Its places are free again.
  grpc::ClientContext list;
  v1::ListWorkersResponse workers;
  ASSERT_TRUE(stub_->ListWorkers(&list, {}, &workers).ok());
  ASSERT_EQ(workers.workers_size(), 2);
  for (const v1::Worker& worker : workers.workers()) EXPECT_EQ(worker.leased_units(), 0);
}

TEST_F(CompileAheadTest, AJobStillWaitsForADevice) {
  StartServer();
  const auto compiler = Compiler(Compiled);
  AwaitWorkers(1);
  const v1::Job job = Submit(Request("no device"));
  std::string message;
  for (int i = 0; i < 1000 && message.empty(); ++i) {
    message = GetJob(job.id()).message();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_THAT(message, HasSubstr("waits for a worker with a device of target cpu"));
  EXPECT_TRUE(compiler->leased().empty());
}

}  // namespace
}  // namespace fettle
