// SPDX-License-Identifier: Apache-2.0
// What ends a job around a model, each with its reason: the roofline, the plateau, each budget.

#include <gmock/gmock.h>

#include "tests/fakes/jumping_clock.h"
#include "tests/server/llm_fixture.h"

namespace fettle {
namespace {

using ::testing::HasSubstr;

class LlmStopTest : public LlmServerTest {
 protected:
  // As Start, with budgets that are of no concern.
  std::string StartLong(const std::function<void(v1::SubmitJobRequest&)>& change) {
    return Start([&](v1::SubmitJobRequest& request) {
      request.mutable_budget()->set_candidates(1'000);
      change(request);
    });
  }
  void ExpectStopped(const v1::Job& job, const std::string& reason) {
    EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED) << job.message();
    EXPECT_THAT(job.message(), HasSubstr("stopped: " + reason));
    EXPECT_LT(job.spent().candidates(), 1'000);
  }
};

TEST_P(LlmStopTest, AtTheRoofline) {
  model_.Respond(Helpful());  // Each a tenth of the baseline's speed faster than the one before.
  Begin();
  const v1::Job job =
      Ended(StartLong([](auto& r) { r.set_options_json(R"({"roofline_stop": 0.145})"); }));
  ExpectStopped(job, "the best variant reaches 15 % of the roofline");  // The fake's: 0.1 * 1.5.
  EXPECT_NEAR(job.best_ratio_tuned(), 1.5, 0.01);
}

TEST_P(LlmStopTest, OnThePlateau) {
  model_.Respond([this](const std::string& request) {
    if (ModelAnswers::AsksForPlan(request)) return answers_.Plan("vector-loads");
    const int number = ++proposed_;  // The second is the last that is faster.
    return Proposal(number <= 2 ? fmt::format("speed 1.{}", number)
                                : fmt::format("speed 1 {}", number));
  });
  Begin();
  const v1::Job job = Ended(StartLong([](auto& r) { r.set_options_json(R"({"plateau": 5})"); }));
  ExpectStopped(job, "no better variant in the last 5 candidates (plateau)");
  EXPECT_EQ(job.spent().candidates(), 7);
  EXPECT_EQ(job.verdict_counts().at("WIN"), 2);
}

TEST_P(LlmStopTest, AtTheBudgetOfCandidates) {
  model_.Respond(Helpful());
  Begin();
  const v1::Job job = Ended(StartLong([](auto& r) { r.mutable_budget()->set_candidates(4); }));
  ExpectStopped(job, "the budget of 4 candidates is spent");
  EXPECT_EQ(job.spent().candidates(), 4);
}

// Also while a model takes for ever to answer.
TEST_P(LlmStopTest, AtTheEndOfItsTime) {
  JumpingClock clock;
  model_.Play({{{StreamHead(), Piece::After::kStall}}});
  ServerOptions options = RealOptions();
  options.clock = &clock;
  StartServer(std::move(options));
  StartWorker(Answer);
  const std::string id = StartLong([](auto& r) { r.mutable_budget()->set_wall_ms(600'000); });
  model_.AwaitRequests(1);
  clock.MoveOn(std::chrono::minutes(9));
  EXPECT_EQ(GetJob(id).state(), v1::JOB_STATE_RUNNING);
  clock.MoveOn(std::chrono::minutes(2));
  ExpectStopped(Ended(id), "the time of 600 s is over");
  worker_.reset();
  server_.reset();  // Before its clock.
}

TEST_P(LlmStopTest, AtTheBudgetOfDeviceTime) {
  model_.Respond(Helpful());
  Begin();
  const v1::Job job = Ended(StartLong([](auto& r) { r.mutable_budget()->set_device_ms(40); }));
  ExpectStopped(job, "the device time of 0.04 s is spent");
  EXPECT_LE(job.spent().device_ms(), 40);
  EXPECT_GT(job.spent().candidates(), 0);
}

TEST_P(LlmStopTest, AtTheBudgetOfTokens) {
  model_.Respond(Helpful());
  Begin();
  const v1::Job job = Ended(StartLong([](auto& r) { r.mutable_budget()->set_tokens(60'000); }));
  ExpectStopped(job, "the budget of tokens is spent");
  EXPECT_LE(job.spent().tokens(), 60'000);
  EXPECT_GT(job.spent().candidates(), 0);
}

TEST_P(LlmStopTest, AtTheBudgetOfMoney) {
  model_.Respond(Helpful());
  Begin();
  const v1::Job job = Ended(StartLong([](auto& r) { r.mutable_budget()->set_usd(0.06); }));
  ExpectStopped(job, "the budget of USD is spent");
  EXPECT_LE(job.spent().usd(), 0.06);
  EXPECT_GT(job.spent().candidates(), 0);
}

INSTANTIATE_TEST_SUITE_P(Providers, LlmStopTest, ::testing::Values("anthropic", "openai"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace fettle
