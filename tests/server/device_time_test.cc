// SPDX-License-Identifier: Apache-2.0
// The budget of device time, which nothing may pass: units that take far longer than was left, that
// are cancelled, or whose workers die.

#include "server/device_time.h"

#include <atomic>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>

#include "fettle/v1/proposals.grpc.pb.h"
#include "store/proposal_store.h"
#include "store/store.h"
#include "tests/server/server_fixture.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kHourNs = 3'600'000'000'000;

TEST(DeviceTimeTest, NothingIsReservedTwice) {
  DeviceTime time([] {});
  time.Start(/*budget_ms=*/100, /*spent_ms=*/20, /*longest_ms=*/10);
  EXPECT_EQ(time.Room(2), 4);
  EXPECT_EQ(time.Reserve("a", 2, 2).value(), 40);
  EXPECT_EQ(time.Reserve("b", 2, 1).value(), 40);
  const auto refused = time.Reserve("c", 1, 1);
  // It is left, and only reserved: that passes.
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("0.08 s left"));
  EXPECT_TRUE(absl::IsResourceExhausted(time.Reserve("d", 9, 1).status()));
  time.Charge("a", 15);
  EXPECT_EQ(time.CapOf("a"), 25);
  EXPECT_EQ(time.Room(1), 0) << "what is spent comes out of the reservation";
  time.Release("a");
  EXPECT_EQ(time.Room(1), 2);
  EXPECT_EQ(time.spent_ms(), 35);
}

TEST(DeviceTimeTest, WithoutABudgetNothingIsRefusedAndAllIsCounted) {
  DeviceTime time([] {});
  time.Start(0, 0, 0);
  EXPECT_EQ(time.Reserve("a", 2, 1).value(), 0);
  time.Charge("a", 7);
  EXPECT_EQ(time.CapOf("a"), 0);
  EXPECT_EQ(time.spent_ms(), 7);
}

TEST(DeviceTimeTest, WhatComesAfterTheEndGoesElsewhere) {
  DeviceTime time([] {});
  time.Start(100, 0, 0);
  ASSERT_TRUE(time.Reserve("a", 1, 1).ok());
  std::int64_t late = 0;
  EXPECT_EQ(time.End([&](std::int64_t ms) { late += ms; }), 0);
  time.Charge("a", 30);
  EXPECT_EQ(late, 30);
}

class DeviceBudgetTest : public ServerTest {
 protected:
  void Begin(FakeWorker::Script script, FakeWorkerOptions worker = {}) {
    ServerOptions options = Options();
    options.proposers = nullptr;
    options.proposer_kinds = DefaultProposerKinds();
    StartServer(std::move(options));
    proposals_ = v1::Proposals::NewStub(channel_);
    StartWorker(std::move(script), std::move(worker));
  }
  std::string Start(const std::string& proposer, std::int64_t device_ms, int configurations = 1) {
    v1::SubmitJobRequest request = Request("");
    request.set_task_blob(PackTaskFiles(ScaleTask(configurations)));
    request.set_proposer(proposer);
    request.mutable_budget()->set_candidates(proposer == "external" ? 0 : 1'000);
    request.mutable_budget()->set_device_ms(device_ms);
    return Submit(request).id();
  }
  void AwaitSearch(const std::string& id) {
    while (GetJob(id).stage() != "search") std::this_thread::yield();
  }
  void AwaitSpent(const std::string& id, std::int64_t device_ms) {
    while (GetJob(id).spent().device_ms() < device_ms) std::this_thread::yield();
  }
  grpc::Status Try(grpc::ClientContext& context, const std::string& id, const std::string& marker) {
    v1::TryProposalRequest request;
    request.set_job_id(id);
    request.set_mode("check");
    request.mutable_change()->set_kernel_json(
        nlohmann::json{{"source", ScaleTask(1)["kernel.cu"] + "// " + marker + "\n"}}.dump());
    v1::TryProposalResponse response;
    return proposals_->TryProposal(&context, request, &response);
  }
  // A try of the job that its client gives up once a worker has it.
  void TryAndCancel(const std::string& id) {
    const std::size_t before = worker_->leased().size();
    grpc::ClientContext context;
    grpc::Status status;
    std::thread caller([&] { status = Try(context, id, "held"); });
    EXPECT_TRUE(worker_->WaitForLeases(before + 1));
    context.TryCancel();
    caller.join();
    EXPECT_EQ(status.error_code(), grpc::CANCELLED) << status.error_message();
  }
  // Registers at once; holds all else without an answer.
  static FakeAnswer Held(const WorkUnit& unit) {
    if (unit.kind != UnitKind::kRegister) return {};
    UnitResult result = PassedRegistration(unit);
    result.device_ns = 0;
    return {.result = std::move(result)};
  }

  std::unique_ptr<v1::Proposals::Stub> proposals_;
};

// One unit that takes longer than all before it, and than all that is left, once passed the budget.
TEST_F(DeviceBudgetTest, OneLongUnitCannotPassIt) {
  std::atomic<int> units = 0;
  std::atomic<std::int64_t> largest_cap_ms = 0;
  Begin(
      [&](const WorkUnit& unit) -> FakeAnswer {
        FakeAnswer answer = HonestAnswer(unit);
        answer.result->device_ns = ++units % 5 == 0 ? kHourNs : 1'000'000;
        EXPECT_GT(unit.device_cap_ms, 0);
        largest_cap_ms = std::max<std::int64_t>(largest_cap_ms, unit.device_cap_ms);
        return {.result = WithinCap(unit, *answer.result)};
      },
      {.slots = 4});
  const std::string id = Start("tuner", /*device_ms=*/200, /*configurations=*/500);
  Watch(id);
  const v1::Job job = GetJob(id);
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED) << job.message();
  EXPECT_THAT(job.message(), HasSubstr("device time of 0.2 s is spent"));
  EXPECT_LE(job.spent().device_ms(), 200);
  EXPECT_GT(job.spent().device_ms(), 100);
  EXPECT_LE(largest_cap_ms, 200);
  EXPECT_GT(job.verdict_counts().at("UNMEASURABLE"), 0) << "the long ones ended at their caps";
}

TEST_F(DeviceBudgetTest, ATaskWhoseChecksTakeMoreEndsThereAndIsCheckedAgain) {
  std::atomic<std::int64_t> takes_ns = kHourNs;
  Begin([&](const WorkUnit& unit) -> FakeAnswer {
    FakeAnswer answer = HonestAnswer(unit);
    if (unit.kind == UnitKind::kRegister) answer.result->device_ns = takes_ns.load();
    return {.result = WithinCap(unit, *answer.result)};
  });
  const std::string id = Start("tuner", /*device_ms=*/50);
  Watch(id);
  v1::Job job = GetJob(id);
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(job.message(),
              HasSubstr("device time of 0.05 s is spent before the task was checked"));
  EXPECT_EQ(job.spent().device_ms(), 50);
  takes_ns = 20'000'000;
  grpc::ClientContext context;
  v1::ResumeJobRequest request;
  request.set_job_id(id);
  request.mutable_budget()->set_device_ms(100);
  v1::ResumeJobResponse response;
  ASSERT_TRUE(stub_->ResumeJob(&context, request, &response).ok());
  Watch(id);
  job = GetJob(id);
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED) << job.message();
  EXPECT_GT(job.spent().candidates(), 0) << job.message();
  EXPECT_GE(job.spent().device_ms(), 70);
  EXPECT_LE(job.spent().device_ms(), 100);
}

// Cancelling a try once gave back what it had taken of the device.
TEST_F(DeviceBudgetTest, ACancelledTryIsChargedWhatItsWorkerSays) {
  Begin(Held, {.cancelled_device_ms = 17});
  const std::string id = Start("external", /*device_ms=*/100'000);
  AwaitSearch(id);
  TryAndCancel(id);
  AwaitSpent(id, 17);
  TryAndCancel(id);
  AwaitSpent(id, 34);
  EXPECT_EQ(GetJob(id).spent().device_ms(), 34);
}

TEST_F(DeviceBudgetTest, ACancelledTryOfAWorkerThatDiesIsChargedAtItsBound) {
  Begin(Held);
  const std::string id = Start("external", /*device_ms=*/100'000);
  AwaitSearch(id);
  TryAndCancel(id);
  worker_.reset();
  AwaitSpent(id, 1);
  EXPECT_LE(GetJob(id).spent().device_ms(), 50'000) << "no more than was reserved";
}

// What a job that was cancelled had under way is charged after its end.
TEST_F(DeviceBudgetTest, ACancelledJobIsChargedWhatItHadUnderWay) {
  Begin(Held, {.cancelled_device_ms = 23});
  const std::string id = Start("tuner", /*device_ms=*/100'000);
  ASSERT_TRUE(worker_->WaitForLeases(2));
  grpc::ClientContext context;
  v1::CancelJobRequest request;
  request.set_job_id(id);
  v1::CancelJobResponse response;
  ASSERT_TRUE(stub_->CancelJob(&context, request, &response).ok());
  AwaitSpent(id, 23);
  EXPECT_EQ(GetJob(id).state(), v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(GetJob(id).spent().device_ms(), 23);
}

// Attempts that come to nothing take device time as well, and leave less for the next one.
TEST_F(DeviceBudgetTest, AttemptsThatFailAreChargedAndCutTheNext) {
  std::mutex mutex;
  std::vector<std::int64_t> caps;
  Begin(
      [&](const WorkUnit& unit) -> FakeAnswer {
        if (unit.kind == UnitKind::kRegister) return Held(unit);
        const std::lock_guard lock(mutex);
        if (caps.size() < 2) {
          caps.push_back(unit.device_cap_ms);
          return {.return_reason = "trouble"};
        }
        caps.push_back(unit.device_cap_ms);
        FakeAnswer answer = HonestAnswer(unit);
        answer.result->device_ns = 5'000'000;
        return answer;
      },
      {.returned_device_ms = 11});
  const std::string id = Start("tuner", /*device_ms=*/1'000);
  Watch(id);
  const v1::Job job = GetJob(id);
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED) << job.message();
  ASSERT_GE(caps.size(), 3U);
  EXPECT_EQ(caps[1], caps[0] - 11);
  EXPECT_EQ(caps[2], caps[0] - 22);
  EXPECT_EQ(job.spent().device_ms(), 22 + 5 * static_cast<std::int64_t>(caps.size() - 2));
}

// A server that dies while a try is under way leaves it in the store at its reservation.
TEST_F(DeviceBudgetTest, ATryInFlightAtACrashIsChargedAtItsReservation) {
  Begin(Held);
  const std::string id = Start("external", /*device_ms=*/1'000);
  AwaitSearch(id);
  worker_.reset();
  proposals_.reset();
  server_.reset();
  {
    const auto store = Store::Open({.data_dir = folder_.str() + "/data"});
    ASSERT_TRUE(store.ok()) << store.status();
    TryRow row;
    row.job_id = id;
    row.mode = "check";
    row.verdict = kOpenTry;
    row.device_ms = 300;
    ASSERT_TRUE((*store)->Write([&](Connection& db) { return InsertTry(db, row); }).ok());
  }
  Begin(Held);
  AwaitSpent(id, 300);
  EXPECT_EQ(GetJob(id).spent().device_ms(), 300);
  // 700 ms are left, of which a try gets half.
  grpc::ClientContext context;
  std::thread caller([&] { EXPECT_FALSE(Try(context, id, "held").ok()); });
  EXPECT_TRUE(worker_->WaitForLeases(1));
  context.TryCancel();
  caller.join();
}

}  // namespace
}  // namespace fettle
