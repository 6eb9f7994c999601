// SPDX-License-Identifier: Apache-2.0
// What a job around a model asks again after its server died, or when it is resumed, and what not.

#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>

#include "tests/server/llm_fixture.h"

namespace fettle {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class LlmResumeTest : public LlmServerTest {
 protected:
  // What was asked and answered, by conversation: the model's name and the limits are left out.
  struct Seen {
    std::mutex mutex;
    bool stall = false, stalled = false;
    std::map<std::string, int> asked;
  };

  // Answers like `answer` until it is told to stall.
  void RespondWith(std::function<FakeHttpServer::Answer(const std::string&)> answer) {
    model_.Respond([seen = seen_, answer](const std::string& request) -> FakeHttpServer::Answer {
      const std::lock_guard lock(seen->mutex);
      if (seen->stall) {
        seen->stalled = true;
        return {{StreamHead(), Piece::After::kStall}};
      }
      const json body = json::parse(request.substr(request.find("\r\n\r\n") + 4));
      ++seen->asked[body["messages"].dump()];
      return answer(request);
    });
  }
  void StallAndStop() {
    const auto stalled = [this](bool begin) {
      const std::lock_guard lock(seen_->mutex);
      if (begin) seen_->stall = true;
      return seen_->stalled;
    };
    while (!stalled(true)) std::this_thread::yield();  // A call is in flight.
    worker_.reset();
    server_.reset();
    seen_->stall = false;
  }
  void ExpectNothingAskedTwice() {
    const std::lock_guard lock(seen_->mutex);
    EXPECT_GE(seen_->asked.size(), 6U);
    for (const auto& [conversation, count] : seen_->asked) {
      EXPECT_EQ(count, 1) << "an answered question was asked again:\n" << conversation;
    }
  }
  v1::Job Resumed(const std::string& id, std::int64_t candidates) {
    grpc::ClientContext context;
    v1::ResumeJobRequest request;
    request.set_job_id(id);
    request.mutable_budget()->set_candidates(candidates);
    v1::ResumeJobResponse response;
    const grpc::Status status = stub_->ResumeJob(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return Ended(id);
  }

  const std::shared_ptr<Seen> seen_ = std::make_shared<Seen>();
  std::atomic<bool> fails_ = true;
};

// An answer that was too long, and a try that could not be made: what was asked next depends on
// them, and stays paid.
TEST_P(LlmResumeTest, FailuresThatTheLoopWentOnFromAreRecalled) {
  RespondWith([this](const std::string& request) -> FakeHttpServer::Answer {
    const int number = asked_++;
    if (number == 0) return answers_.Stream(answers_.TextOnly(std::string(2 << 20, 'x')));
    if (ModelAnswers::AsksForPlan(request)) {
      return answers_.Plan(fmt::format("technique-{}", number));
    }
    if (number < 4) {
      return answers_.Call("check", {{"source", ScaleTask(1)["kernel.cu"] + Tag("speed 1.05")}});
    }
    return Proposal(fmt::format("speed {}", 1.1 + 0.1 * ++proposed_));
  });
  const auto answer = [this](const WorkUnit& unit) -> FakeAnswer {
    const bool tried = unit.candidate.kernel.source.find("speed 1.05") != std::string::npos;
    if (tried && fails_) return {.return_reason = "the device is gone"};
    return Answer(unit);
  };
  StartServer(RealOptions());
  StartWorker(answer);
  const std::string id = Start([](auto& r) { r.mutable_budget()->set_candidates(12); });
  while (GetJob(id).spent().candidates() < 2) std::this_thread::yield();
  StallAndStop();
  fails_ = false;  // It would end otherwise now.
  StartServer(RealOptions());
  StartWorker(answer);
  const v1::Job job = Ended(id);
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED) << job.message();
  EXPECT_EQ(job.spent().candidates(), 12);
  ExpectNothingAskedTwice();
}

// Neither the name under which a provider knows a model nor the length of its answers makes what
// was paid worthless.
TEST_P(LlmResumeTest, AnotherNameOrLimitOfTheModelPaysNothingTwice) {
  RespondWith([this](const std::string& request) {
    if (ModelAnswers::AsksForPlan(request)) {
      return answers_.Plan(fmt::format("technique-{}", ++asked_));
    }
    return Proposal(fmt::format("speed {}", 1.1 + 0.1 * ++proposed_));
  });
  Begin();
  const std::string id = Start([](auto& r) { r.mutable_budget()->set_candidates(8); });
  while (GetJob(id).spent().candidates() < 3) std::this_thread::yield();
  StallAndStop();
  ServerOptions options = RealOptions();
  json models;
  std::ifstream(options.models_file) >> models;
  models["models"]["m"]["model"] = "m-2026-12";
  models["models"]["m"]["max_output_tokens"] = 3'000;
  std::ofstream(options.models_file) << models.dump();
  StartServer(std::move(options));
  StartWorker(Answer);
  const v1::Job job = Ended(id);
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED) << job.message();
  EXPECT_EQ(job.spent().candidates(), 8);
  EXPECT_THAT(model_.requests().back(), HasSubstr("m-2026-12"));
  ExpectNothingAskedTwice();
}

TEST_P(LlmResumeTest, AJobThatEndedWithAUselessModelAsksItAgain) {
  model_.Respond([this](const std::string&) {
    ++asked_;
    return answers_.Stream(answers_.TextOnly("I would rather talk about it."));
  });
  Begin();
  const std::string id = Start();
  EXPECT_THAT(Ended(id).message(), HasSubstr("nothing usable in 8 rounds in a row"));
  const int before = asked_;
  EXPECT_THAT(Resumed(id, 3).message(), HasSubstr("nothing usable in 8 rounds in a row"));
  EXPECT_EQ(asked_, 2 * before);
  model_.Respond(Helpful());  // The model is better now.
  const v1::Job job = Resumed(id, 3);
  EXPECT_EQ(job.spent().candidates(), 3) << job.message();
}

INSTANTIATE_TEST_SUITE_P(Providers, LlmResumeTest, ::testing::Values("anthropic", "openai"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace fettle
