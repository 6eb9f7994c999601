// SPDX-License-Identifier: Apache-2.0
// Whole jobs through the service, with a scripted worker.

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include <gmock/gmock.h>

#include "tests/server/server_fixture.h"

namespace fettle {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class JobTest : public ServerTest {};

TEST_F(JobTest, RunsToAnAcceptedVariant) {
  StartServer();
  StartWorker(HonestAnswer);
  const v1::Job submitted = Submit(Request("r1"));
  EXPECT_EQ(submitted.task_name(), "scale");
  const std::vector<v1::JobEvent> events = Watch(submitted.id());
  ASSERT_FALSE(events.empty());
  std::int64_t expected = 1;
  for (const v1::JobEvent& event : events) EXPECT_EQ(event.sequence(), expected++);
  EXPECT_TRUE(events.back().terminal());
  EXPECT_EQ(events.back().state_changed().state(), v1::JOB_STATE_SUCCEEDED);

  const v1::Job job = GetJob(submitted.id());
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED) << job.message();
  EXPECT_EQ(job.candidate_count(), kCandidates);
  EXPECT_EQ(job.spent().candidates(), kCandidates);
  EXPECT_NEAR(job.best_ratio_declared(), 2.0, 0.01);
  EXPECT_EQ(job.verdict_counts().at("WIN"), 2);

  const std::vector<v1::Variant> variants = Variants(job.id());
  ASSERT_EQ(variants.size(), 2U);  // Newest first.
  EXPECT_EQ(variants[0].status(), "accepted");
  EXPECT_EQ(variants[0].values_json(), "{\"BLOCK\":6}");
  EXPECT_TRUE(variants[0].is_tuned_baseline());
  EXPECT_EQ(variants[1].status(), "superseded");
  EXPECT_GT(variants[0].ratio_low(), 1.9);

  const auto provenance = nlohmann::json::parse(GetVariant(variants[0].id()).provenance_json());
  EXPECT_EQ(provenance["format"], 1);
  EXPECT_EQ(provenance["variant"]["values"]["BLOCK"], 6);
  EXPECT_EQ(provenance["task"]["name"], "scale");
  EXPECT_EQ(provenance["measurement"]["cases"].size(), 1U);
  EXPECT_EQ(provenance["denominator"]["values"]["BLOCK"], 1);
  EXPECT_EQ(provenance["proposer"]["technique"], "list");
  EXPECT_EQ(provenance["builds"].size(), 1U);
  EXPECT_FALSE(provenance["confirmation"]["held_out_seed"].is_null());
}

TEST_F(JobTest, OtherProposersAreJudgedAgainstTheTunedBaseline) {
  StartServer();
  StartWorker(HonestAnswer);
  v1::SubmitJobRequest request = Request("r1");
  request.set_proposer("list");
  request.set_options_json("{\"tune_share\": 0.5}");
  const v1::Job job = Submit(request);
  const std::vector<v1::JobEvent> events = Watch(job.id());
  std::vector<std::string> stages;
  for (const v1::JobEvent& event : events) {
    if (event.has_stage_started()) stages.push_back(event.stage_started().stage());
  }
  EXPECT_EQ(stages, (std::vector<std::string>{"register", "tune", "search"}));
  // Tuning finds BLOCK 6, and nothing in the search beats that; a second job starts from it.
  const v1::Job ended = GetJob(job.id());
  EXPECT_NEAR(ended.best_ratio_declared(), 2.0, 0.01);
  EXPECT_NEAR(ended.best_ratio_tuned(), 1.0, 1e-9);
  request.set_request_id("r2");
  const v1::Job second = Submit(request);
  stages.clear();
  for (const v1::JobEvent& event : Watch(second.id())) {
    if (event.has_stage_started()) stages.push_back(event.stage_started().stage());
  }
  EXPECT_EQ(stages, (std::vector<std::string>{"register", "search"}));
  EXPECT_EQ(GetJob(second.id()).verdict_counts().count("WIN"), 0U);
}

TEST_F(JobTest, ARefusedTaskFailsWithTheReason) {
  StartServer();
  StartWorker([](const WorkUnit& unit) {
    return FakeAnswer{.result = RefusedRegistration(unit, "accepts_zeros")};
  });
  const v1::Job job = Submit(Request("r1"));
  Watch(job.id());
  const v1::Job ended = GetJob(job.id());
  EXPECT_EQ(ended.state(), v1::JOB_STATE_FAILED);
  EXPECT_NE(ended.message().find("accepts_zeros"), std::string::npos) << ended.message();
}

TEST_F(JobTest, AFailedConfirmationIsNoWin) {
  StartServer();
  StartWorker([](const WorkUnit& unit) {
    if (unit.kind != UnitKind::kConfirm) return HonestAnswer(unit);
    if (SpeedOf(unit.candidate) > 1.7) {
      return FakeAnswer{.result =
                            JudgedResult(unit, Verdict::kIncorrect, Stage::kVerify, "tolerance")};
    }
    return FakeAnswer{.result = MeasuredResult(unit, 1.001, 1.0)};
  });
  const v1::Job job = Submit(Request("r1"));
  Watch(job.id());
  const v1::Job ended = GetJob(job.id());
  EXPECT_EQ(ended.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_TRUE(ended.best_variant_id().empty());
  EXPECT_TRUE(Variants(job.id()).empty());
  EXPECT_EQ(ended.verdict_counts().at("INCORRECT"), 1);
}

TEST_F(JobTest, AnAmbiguousContenderIsConfirmedOnceMore) {
  StartServer();
  std::map<std::int64_t, int> confirmed;  // Of the worker's thread.
  StartWorker([&](const WorkUnit& unit) {
    if (unit.kind != UnitKind::kConfirm) return HonestAnswer(unit);
    const bool first = confirmed[unit.candidate.values.at("BLOCK")]++ == 0;
    return first ? Noisy(unit, SpeedOf(unit.candidate)) : HonestAnswer(unit);
  });
  const v1::Job job = Submit(Request("r1"));
  Watch(job.id());
  const v1::Job ended = GetJob(job.id());
  EXPECT_EQ(ended.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_NEAR(ended.best_ratio_declared(), 2.0, 0.01);
  EXPECT_EQ(ended.verdict_counts().count("AMBIGUOUS"), 0u);
  EXPECT_EQ(confirmed[6], 2);  // The fastest. Others may be spared their second.
  for (const auto& [block, times] : confirmed) EXPECT_LE(times, 2) << block;
}

TEST_F(JobTest, ButNotAThirdTime) {
  StartServer();
  std::map<std::int64_t, int> confirmed;  // Of the worker's thread.
  StartWorker([&](const WorkUnit& unit) {
    if (unit.kind != UnitKind::kConfirm) return HonestAnswer(unit);
    ++confirmed[unit.candidate.values.at("BLOCK")];
    return Noisy(unit, SpeedOf(unit.candidate));
  });
  const v1::Job job = Submit(Request("r1"));
  Watch(job.id());
  const v1::Job ended = GetJob(job.id());
  EXPECT_EQ(ended.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_TRUE(ended.best_variant_id().empty());
  EXPECT_EQ(ended.verdict_counts().at("AMBIGUOUS"), static_cast<int>(confirmed.size()));
  EXPECT_FALSE(confirmed.empty());
  for (const auto& [block, times] : confirmed) EXPECT_EQ(times, 2) << block;
}

// Three contenders: what comes first goes at once, the others wait for its end, and then a slower
// one, which came before, needs no confirmation any more.
TEST_F(JobTest, TheFastestContenderIsConfirmedFirst) {
  StartServer();
  const auto speed = [](const KernelUnderTest& kernel) {
    return kernel.values.at("BLOCK") == 2 ? 1.2 : SpeedOf(kernel);
  };
  std::vector<std::int64_t> confirmed;  // Of the worker's thread.
  StartWorker(
      [&](const WorkUnit& unit) -> FakeAnswer {
        if (unit.kind == UnitKind::kRegister) return HonestAnswer(unit);
        if (unit.kind == UnitKind::kConfirm) confirmed.push_back(unit.candidate.values.at("BLOCK"));
        const double incumbent = unit.incumbent.has_value() ? speed(*unit.incumbent) : 1;
        return {.result =
                    MeasuredResult(unit, speed(unit.candidate), speed(unit.candidate) / incumbent)};
      },
      {.slots = kCandidates});
  const v1::Job job = Submit(Request("r1"));
  EXPECT_TRUE(Watch(job.id()).back().terminal());
  worker_->Stop();
  // Of those that wait the fastest goes, which spares the others their confirmation: never a slower
  // one after a faster. Which of them wait together depends on when their results arrive.
  EXPECT_THAT(confirmed,
              AnyOf(ElementsAre(6), ElementsAre(2, 6), ElementsAre(4, 6), ElementsAre(2, 4, 6)));
  EXPECT_EQ(GetJob(job.id()).verdict_counts().at("WIN"),
            static_cast<std::int64_t>(confirmed.size()));
  EXPECT_EQ(GetJob(job.id()).candidate_count(), kCandidates);
}

// A device has the search's inputs ready before the first candidate is there.
TEST_F(JobTest, TheRegistrationKnowsTheSeedsOfTheSearch) {
  StartServer();
  std::set<std::uint64_t> announced, searched, fresh;  // Of the worker's thread.
  StartWorker([&](const WorkUnit& unit) {
    if (unit.kind == UnitKind::kRegister) {
      announced.insert(unit.search_seeds.begin(), unit.search_seeds.end());
    } else {
      EXPECT_TRUE(unit.search_seeds.empty());
    }
    (unit.kind == UnitKind::kEvaluate ? searched : fresh).insert(unit.seed);
    return HonestAnswer(unit);
  });
  EXPECT_TRUE(Watch(Submit(Request("r1")).id()).back().terminal());
  worker_->Stop();
  EXPECT_FALSE(searched.empty());
  EXPECT_THAT(announced, testing::IsSupersetOf(searched));
  for (const std::uint64_t seed : fresh) EXPECT_FALSE(announced.contains(seed));
}

TEST_F(JobTest, SubmitIsIdempotentByRequestId) {
  StartServer();
  const v1::Job first = Submit(Request("same"));
  EXPECT_EQ(Submit(Request("same")).id(), first.id());
  v1::SubmitJobRequest other = Request("same");
  other.mutable_budget()->set_candidates(5);
  grpc::ClientContext context;
  v1::SubmitJobResponse response;
  EXPECT_EQ(stub_->SubmitJob(&context, other, &response).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
}

TEST_F(JobTest, StopsWithTheFirstVariantThatIsFastEnough) {
  StartServer();
  StartWorker(HonestAnswer);
  v1::SubmitJobRequest request = Request("r1");
  request.set_options_json(R"({"speedup_stop": 1})");
  const v1::Job job = Submit(request);
  EXPECT_TRUE(Watch(job.id()).back().terminal());
  const v1::Job ended = GetJob(job.id());
  EXPECT_THAT(ended.message(), testing::HasSubstr("is enough (speedup_stop)"));
  EXPECT_THAT(ended.message(), testing::Not(testing::HasSubstr("goes on with them")));
  EXPECT_EQ(ended.verdict_counts().at("WIN"), 1);
  EXPECT_GT(ended.best_ratio_declared(), 1);
}

TEST_F(JobTest, StopsAtTheBudgetAndResumesWithMore) {
  StartServer();
  StartWorker(HonestAnswer);
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_budget()->set_candidates(3);
  const v1::Job job = Submit(request);
  const std::vector<v1::JobEvent> events = Watch(job.id());
  EXPECT_EQ(GetJob(job.id()).candidate_count(), 3);
  EXPECT_NE(GetJob(job.id()).message().find("budget of 3"), std::string::npos);

  v1::ResumeJobRequest resume;
  resume.set_job_id(job.id());
  v1::ResumeJobResponse resumed;
  {
    grpc::ClientContext context;
    const grpc::Status status = stub_->ResumeJob(&context, resume, &resumed);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  }
  resume.mutable_budget()->set_candidates(100);
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->ResumeJob(&context, resume, &resumed).ok());
  const std::vector<v1::JobEvent> more = Watch(job.id(), events.back().sequence());
  EXPECT_TRUE(more.back().terminal());
  EXPECT_EQ(GetJob(job.id()).candidate_count(), kCandidates);
  EXPECT_NEAR(GetJob(job.id()).best_ratio_declared(), 2.0, 0.01);
}

TEST_F(JobTest, DeviceTimeIsReservedAtTheLongestAndNeverExceeded) {
  StartServer(Options());
  const auto units = std::make_shared<std::atomic<int>>(0);
  StartWorker(
      [units](const WorkUnit& unit) {
        FakeAnswer answer = HonestAnswer(unit);
        // Every fourth takes much longer than the mean.
        const int number = (*units)++;
        answer.result->device_ns = (number % 4 == 1 ? 9 : 1) * 1'000'000;
        return answer;
      },
      {.slots = 4});
  v1::SubmitJobRequest request = Request("");
  request.mutable_budget()->set_candidates(1'000);
  request.mutable_budget()->set_device_ms(30);
  const std::string id = Submit(request).id();
  Watch(id);
  const v1::Job job = GetJob(id);
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED) << job.message();
  EXPECT_THAT(job.message(), HasSubstr("device time of 0.03 s is spent"));
  EXPECT_LE(job.spent().device_ms(), 30);
  EXPECT_GT(job.spent().device_ms(), 30 - 2 * 9);
}

// Without a budget of candidates, tuning once took all there was.
TEST_F(JobTest, TuningTakesItsShareOfTheDeviceTimeToo) {
  StartServer(Options());
  StartWorker(HonestAnswer);
  v1::SubmitJobRequest request = Request("");
  request.set_task_blob(PackTaskFiles(ScaleTask(500)));
  request.set_proposer("list");
  request.mutable_budget()->set_candidates(0);
  request.mutable_budget()->set_device_ms(60);
  const std::string id = Submit(request).id();
  const std::vector<v1::JobEvent> events = Watch(id);
  std::vector<std::string> stages;
  for (const v1::JobEvent& event : events) {
    if (event.has_stage_started()) stages.push_back(event.stage_started().message());
  }
  EXPECT_THAT(stages, ::testing::Contains(HasSubstr("share of the device time")));
  EXPECT_LE(GetJob(id).spent().device_ms(), 60);
}

// The budget of time is a hard end: what hangs in evaluation is given back, and a resumed job
// judges it after all.
TEST_F(JobTest, TimeOverGivesBackWhatIsUnderWay) {
  StartServer();
  std::atomic<bool> answers = false;
  StartWorker([&](const WorkUnit& unit) {
    if (unit.kind == UnitKind::kRegister || answers) return HonestAnswer(unit);
    return FakeAnswer{};  // Holds the unit.
  });
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_budget()->set_wall_ms(1'000);
  const v1::Job job = Submit(request);
  const std::vector<v1::JobEvent> events = Watch(job.id());
  EXPECT_EQ(events.back().state_changed().state(), v1::JOB_STATE_SUCCEEDED);
  const v1::Job ended = GetJob(job.id());
  EXPECT_LT(ended.spent().wall_ms(), 4'000);
  EXPECT_THAT(ended.message(), HasSubstr("the time of 1 s is over"));
  EXPECT_THAT(ended.message(), HasSubstr("were given back"));
  EXPECT_GE(worker_->cancelled(), 1u);

  answers = true;
  v1::ResumeJobRequest resume;
  resume.set_job_id(job.id());
  resume.mutable_budget()->set_wall_ms(60'000);
  v1::ResumeJobResponse resumed;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->ResumeJob(&context, resume, &resumed).ok());
  const std::vector<v1::JobEvent> more = Watch(job.id(), events.back().sequence());
  EXPECT_TRUE(more.back().terminal());
  const v1::Job end = GetJob(job.id());
  EXPECT_EQ(end.candidate_count(), kCandidates);
  EXPECT_EQ(end.spent().candidates(), kCandidates);
  EXPECT_NEAR(end.best_ratio_declared(), 2.0, 0.01);
}

// All of its candidates were under way, so that none were left to propose; the time ended it.
TEST_F(JobTest, TheReasonIsTheBudgetThatEndedTheJob) {
  StartServer();
  StartWorker([](const WorkUnit& unit) {
    return unit.kind == UnitKind::kRegister ? HonestAnswer(unit) : FakeAnswer{};  // Held.
  });
  for (const char* proposer : {"tuner", "list"}) {
    v1::SubmitJobRequest request = Request("");
    request.set_proposer(proposer);
    request.mutable_budget()->set_candidates(1);
    request.mutable_budget()->set_wall_ms(1'000);
    const std::string id = Submit(request).id();
    Watch(id);
    EXPECT_THAT(GetJob(id).message(), HasSubstr("stopped: the time of 1 s is over; ")) << proposer;
    EXPECT_THAT(GetJob(id).message(), HasSubstr("1 candidates under way were given back"));
  }
}

TEST_F(JobTest, TimeOverEndsTheChecksOfTheTaskToo) {
  StartServer();
  StartWorker([](const WorkUnit&) { return FakeAnswer{}; });  // Holds the registration.
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_budget()->set_wall_ms(500);
  const v1::Job job = Submit(request);
  EXPECT_TRUE(Watch(job.id()).back().terminal());
  EXPECT_THAT(GetJob(job.id()).message(), HasSubstr("before the task was checked"));
}

// A contender that the end of the time finds in its confirmation gets a while to finish it.
TEST_F(JobTest, TimeOverLetsAConfirmationEnd) {
  StartServer();
  StartWorker([](const WorkUnit& unit) {
    if (unit.kind == UnitKind::kConfirm) std::this_thread::sleep_for(std::chrono::seconds(2));
    return HonestAnswer(unit);
  });
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_budget()->set_wall_ms(1'000);
  const v1::Job job = Submit(request);
  EXPECT_TRUE(Watch(job.id()).back().terminal());
  EXPECT_GT(GetJob(job.id()).best_ratio_declared(), 1.4);
}

TEST_F(JobTest, CancelEndsTheJobAndTellsTheWorker) {
  StartServer();
  StartWorker([](const WorkUnit& unit) {
    if (unit.kind == UnitKind::kRegister) return HonestAnswer(unit);
    return FakeAnswer{};  // Holds the unit.
  });
  const v1::Job job = Submit(Request("r1"));
  ASSERT_TRUE(worker_->WaitForLeases(2));
  grpc::ClientContext context;
  v1::CancelJobRequest request;
  request.set_job_id(job.id());
  v1::CancelJobResponse response;
  ASSERT_TRUE(stub_->CancelJob(&context, request, &response).ok());
  EXPECT_EQ(response.job().state(), v1::JOB_STATE_CANCELLED);
  const std::vector<v1::JobEvent> events = Watch(job.id());
  EXPECT_EQ(events.back().state_changed().state(), v1::JOB_STATE_CANCELLED);
  grpc::ClientContext again;
  EXPECT_EQ(stub_->CancelJob(&again, request, &response).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(JobTest, AWorkerDeathCostsOneAttempt) {
  StartServer();
  std::atomic<int> deaths{0};
  StartWorker([&](const WorkUnit& unit) {
    if (unit.kind == UnitKind::kEvaluate && unit.attempt == 1 && deaths.fetch_add(1) == 0) {
      return FakeAnswer{.die = true};
    }
    return HonestAnswer(unit);
  });
  const v1::Job job = Submit(Request("r1"));
  Watch(job.id());
  EXPECT_EQ(GetJob(job.id()).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(GetJob(job.id()).candidate_count(), kCandidates);
  EXPECT_EQ(GetJob(job.id()).spent().candidates(), kCandidates);
  bool second = false;
  for (const std::string& lease : worker_->leased()) second |= lease.ends_with("evaluate:2");
  EXPECT_TRUE(second);
}

TEST_F(JobTest, APoisonUnitIsGivenUpAndTheJobGoesOn) {
  StartServer();
  StartWorker([](const WorkUnit& unit) {
    if (unit.kind == UnitKind::kEvaluate && unit.candidate.values.at("BLOCK") == 2) {
      return FakeAnswer{.return_reason = "the device is on fire"};
    }
    return HonestAnswer(unit);
  });
  const v1::Job job = Submit(Request("r1"));
  Watch(job.id());
  EXPECT_EQ(GetJob(job.id()).state(), v1::JOB_STATE_SUCCEEDED);
  const v1::Candidate poisoned = Candidates(job.id()).at(1);
  const auto verdict = nlohmann::json::parse(poisoned.verdict_json());
  EXPECT_EQ(verdict["verdict"], "UNMEASURABLE");
  EXPECT_EQ(verdict["reason_code"], "unit_abandoned");
  EXPECT_NE(verdict["message"].get<std::string>().find("on fire"), std::string::npos);
  EXPECT_NEAR(GetJob(job.id()).best_ratio_declared(), 2.0, 0.01);
}

TEST_F(JobTest, AResultWithoutMeasurementIsNeverAWin) {
  StartServer();
  StartWorker([](const WorkUnit& unit) {
    if (unit.kind == UnitKind::kRegister) return HonestAnswer(unit);
    UnitResult bare = MeasuredResult(unit, 2, 2);
    bare.measurement.reset();
    return FakeAnswer{.result = bare};
  });
  const v1::Job job = Submit(Request("r1"));
  Watch(job.id());
  EXPECT_EQ(GetJob(job.id()).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(GetJob(job.id()).verdict_counts().at("UNMEASURABLE"), kCandidates);
}

TEST_F(JobTest, SecretsStayInsideUntilTheJobEnds) {
  StartServer();
  std::atomic<bool> hold{true};
  StartWorker([&](const WorkUnit& unit) {
    if (unit.kind == UnitKind::kEvaluate && unit.candidate.values.at("BLOCK") == 8 && hold) {
      return FakeAnswer{};
    }
    return HonestAnswer(unit);
  });
  const v1::Job job = Submit(Request("r1"));
  std::string variant_id;
  {
    grpc::ClientContext context;
    v1::WatchJobRequest request;
    request.set_job_id(job.id());
    auto reader = stub_->WatchJob(&context, request);
    v1::JobEvent event;
    int accepted = 0;
    while (accepted < 2 && reader->Read(&event)) {
      if (!event.has_variant_accepted()) continue;
      variant_id = event.variant_accepted().variant_id();
      ++accepted;
    }
    context.TryCancel();
    reader->Finish();
  }
  const auto open = nlohmann::json::parse(GetVariant(variant_id).provenance_json());
  EXPECT_FALSE(open["verification"].contains("seeds"));
  EXPECT_FALSE(open["confirmation"].contains("held_out_seed"));
  EXPECT_FALSE(open["confirmation"].contains("seed"));
  grpc::ClientContext context;
  v1::CancelJobRequest request;
  request.set_job_id(job.id());
  v1::CancelJobResponse response;
  ASSERT_TRUE(stub_->CancelJob(&context, request, &response).ok());
  const auto closed = nlohmann::json::parse(GetVariant(variant_id).provenance_json());
  EXPECT_TRUE(closed["verification"].contains("seeds"));
  EXPECT_TRUE(closed["confirmation"].contains("held_out_seed"));
}

TEST_F(JobTest, SeveralJobsTakeTurns) {
  StartServer();
  StartWorker(HonestAnswer);
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(Submit(Request(fmt::format("r{}", i))).id());
  for (const std::string& id : ids) {
    Watch(id);
    EXPECT_EQ(GetJob(id).state(), v1::JOB_STATE_SUCCEEDED);
    EXPECT_EQ(GetJob(id).candidate_count(), kCandidates);
  }
}

TEST_F(JobTest, WaitsForAWorkerAndSaysSo) {
  StartServer();
  const v1::Job job = Submit(Request("r1"));
  std::string message;
  for (int i = 0; i < 200 && message.find("waits for a worker") == std::string::npos; ++i) {
    message = GetJob(job.id()).message();
  }
  EXPECT_NE(message.find("waits for a worker"), std::string::npos) << message;
  StartWorker(HonestAnswer);
  Watch(job.id());
  EXPECT_EQ(GetJob(job.id()).state(), v1::JOB_STATE_SUCCEEDED);
}

}  // namespace
}  // namespace fettle
