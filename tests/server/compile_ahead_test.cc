// SPDX-License-Identifier: Apache-2.0
// Workers without a device compile what waits for one, and do nothing else.
#include <atomic>
#include <mutex>

#include <gmock/gmock.h>

#include "core/digest.h"
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
