// SPDX-License-Identifier: Apache-2.0
// Proposals from outside, through the service, with a scripted worker.

#include <array>
#include <condition_variable>
#include <thread>

#include <gmock/gmock.h>

#include "fettle/v1/proposals.grpc.pb.h"
#include "tests/server/server_fixture.h"

namespace fettle {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ProposalsTest : public ServerTest {
 protected:
  // Real proposers; the speed of a kernel is what its source says: "// speed 1.5".
  static double SpeedInSource(const KernelUnderTest& kernel) {
    const std::size_t at = kernel.kernel.source.find("// speed ");
    return at == std::string::npos ? 1 : std::stod(kernel.kernel.source.substr(at + 9));
  }
  static FakeAnswer Answer(const WorkUnit& unit) {
    if (unit.kind == UnitKind::kRegister) return {.result = PassedRegistration(unit)};
    if (unit.candidate.kernel.source.find("broken") != std::string::npos) {
      return {.result =
                  JudgedResult(unit, Verdict::kCompileError, Stage::kCompile, "compile_rejected")};
    }
    const double speed = SpeedInSource(unit.candidate);
    const double incumbent = unit.incumbent.has_value() ? SpeedInSource(*unit.incumbent) : 1;
    return {.result =
                MeasuredResult(unit, speed / SpeedInSource(unit.denominator), speed / incumbent)};
  }
  ServerOptions RealOptions() {
    ServerOptions options = Options();
    options.proposers = nullptr;
    options.proposer_kinds = {"tuner", "external"};
    return options;
  }
  void Begin(ServerOptions options) {
    StartServer(std::move(options));
    proposals_ = v1::Proposals::NewStub(channel_);
    StartWorker(Answer);
  }
  // A job that takes proposals and has started.
  std::string ExternalJob(std::int64_t candidates = 100) {
    v1::SubmitJobRequest request = Request("");
    request.set_task_blob(PackTaskFiles(ScaleTask(1)));  // Nothing to tune.
    request.set_proposer("external");
    request.mutable_budget()->set_candidates(candidates);
    const std::string id = Submit(request).id();
    while (GetJob(id).state() == v1::JOB_STATE_QUEUED) std::this_thread::yield();
    return id;
  }
  static v1::ProposeRequest Whole(const std::string& job, const std::string& marker,
                                  const std::string& key = "") {
    v1::ProposeRequest request;
    request.set_job_id(job);
    request.set_key(key);
    request.set_technique("test/" + marker);
    request.set_rationale("because");
    request.mutable_change()->set_kernel_json(
        json{{"source", ScaleTask(1)["kernel.cu"] + "// " + marker + "\n"}}.dump());
    return request;
  }
  grpc::Status Propose(const v1::ProposeRequest& request, v1::ProposeResponse& response) {
    grpc::ClientContext context;
    return proposals_->Propose(&context, request, &response);
  }
  std::string Proposed(const v1::ProposeRequest& request) {
    v1::ProposeResponse response;
    const grpc::Status status = Propose(request, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.candidate();
  }
  v1::WaitProposalResponse Wait(const std::string& job, const std::string& candidate,
                                std::int64_t wait_ms = 30'000) {
    grpc::ClientContext context;
    v1::WaitProposalRequest request;
    request.set_job_id(job);
    request.set_candidate(candidate);
    request.set_wait_ms(wait_ms);
    v1::WaitProposalResponse response;
    const grpc::Status status = proposals_->WaitProposal(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  static std::string VerdictIn(const v1::WaitProposalResponse& response) {
    const json feedback = json::parse(response.feedback_json(), nullptr, false);
    return feedback.is_object() ? feedback["verdict"].value("verdict", "") : response.state();
  }

  std::unique_ptr<v1::Proposals::Stub> proposals_;
};

TEST_F(ProposalsTest, ProposesWholePatchesAndWins) {
  Begin(RealOptions());
  const std::string job = ExternalJob();
  const std::string slow = Proposed(Whole(job, "speed 1.0"));
  v1::WaitProposalResponse answer = Wait(job, slow);
  EXPECT_EQ(VerdictIn(answer), "NO_WIN");
  json bar = json::parse(answer.bar_json());
  EXPECT_TRUE(bar["incumbent"].is_null());
  EXPECT_EQ(bar["budget"]["candidates"]["left"], 99);
  EXPECT_FALSE(answer.next_action().empty());

  v1::ProposeRequest patch;
  patch.set_job_id(job);
  patch.mutable_change()->set_parent(slow.substr(0, 10));
  patch.mutable_change()->set_patch("@@ -1 +1 @@\n-// speed 1.0\n+// speed 1.5\n");
  const std::string fast = Proposed(patch);
  EXPECT_NE(fast, slow);
  answer = Wait(job, fast);
  EXPECT_EQ(VerdictIn(answer), "WIN");
  bar = json::parse(answer.bar_json());
  EXPECT_EQ(bar["incumbent"]["candidate"], fast);
  EXPECT_NEAR(bar["to_beat"]["ratio"].get<double>(), 1.5 * 1.005, 0.01);

  v1::ProposeRequest edit;
  edit.set_job_id(job);
  edit.mutable_change()->set_parent("incumbent");
  v1::Edit& change = *edit.mutable_change()->add_edits();
  change.set_find("speed 1.5");
  change.set_replace("speed 1.2");
  EXPECT_EQ(VerdictIn(Wait(job, Proposed(edit))), "NO_WIN");

  const std::vector<v1::Candidate> rows = Candidates(job);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].parent(), "");
  EXPECT_EQ(rows[1].parent(), slow);
  EXPECT_EQ(rows[2].parent(), fast);
  EXPECT_EQ(rows[0].proposer(), "external");
  EXPECT_EQ(rows[0].technique(), "test/speed 1.0");
}

TEST_F(ProposalsTest, AKeyMakesARepeatHarmless) {
  Begin(RealOptions());
  const std::string job = ExternalJob();
  v1::ProposeResponse first, again;
  ASSERT_TRUE(Propose(Whole(job, "speed 1.1", "k1"), first).ok());
  ASSERT_TRUE(Propose(Whole(job, "speed 1.1", "k1"), again).ok());
  EXPECT_EQ(first.candidate(), again.candidate());
  const grpc::Status other = Propose(Whole(job, "speed 1.2", "k1"), again);
  EXPECT_EQ(other.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(other.error_details(), "key_reused");
  Wait(job, first.candidate());
  // The same kernel under another key is the same candidate, and costs nothing.
  ASSERT_TRUE(Propose(Whole(job, "speed 1.1", "k2"), again).ok());
  EXPECT_TRUE(again.known());
  EXPECT_EQ(again.state(), "judged");
  EXPECT_EQ(GetJob(job).spent().candidates(), 1);
}

TEST_F(ProposalsTest, BadProposalsAreNamedAndCostNothing) {
  Begin(RealOptions());
  const std::string job = ExternalJob();
  v1::ProposeResponse response;
  const auto expect = [&](const std::function<void(v1::KernelChange&)>& change,
                          const std::string& code, const std::string& text) {
    v1::ProposeRequest request;
    request.set_job_id(job);
    change(*request.mutable_change());
    const grpc::Status status = Propose(request, response);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.error_details(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(text));
    EXPECT_LE(status.error_message().size(), 1024U);
  };
  expect(
      [](auto& c) {
        c.set_parent("deadbeef");
        c.set_patch("@@ -1 +1 @@\n-a\n+b\n");
      },
      "unknown_parent", "deadbeef");
  expect([](auto& c) { c.set_kernel_json("[]"); }, "bad_request", "kernel_json");
  expect(
      [](auto& c) {
        const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
        c.set_kernel_json(R"({"launches": )" + deep + "}");
      },
      "bad_request", "nested at most 32");
  expect([](auto&) {}, "bad_request", "change: is empty");
  expect([](auto& c) { c.set_parent("baseline"); }, "bad_request", "change: is empty");
  expect([](auto& c) { c.set_kernel_json(R"({"sauce": "x"})"); }, "bad_request", "sauce");
  expect([](auto& c) { c.set_kernel_json(R"({"source": 7})"); }, "bad_request", "source");
  expect([](auto& c) { c.set_kernel_json(R"({"source": ""})"); }, "proposal_invalid", "source");
  expect([](auto& c) { c.set_kernel_json(R"({"launches": [{"kernel": "f", "grid": ["nope"]}]})"); },
         "proposal_invalid", "nope");
  expect([](auto& c) { c.set_kernel_json(R"({"values": {"BLOCK": 77}})"); }, "proposal_invalid",
         "BLOCK");
  expect([](auto& c) { c.set_patch("@@ -1 +1 @@\n-not there\n+x\n"); }, "patch_failed",
         "not there");
  EXPECT_EQ(Propose(Whole("j-none", "x"), response).error_details(), "unknown_job");
  EXPECT_EQ(GetJob(job).spent().candidates(), 0);
  v1::SubmitJobRequest request = Request("");
  const std::string tuner = Submit(request).id();
  Watch(tuner);
  EXPECT_EQ(Propose(Whole(tuner, "x"), response).error_details(), "job_ended");
}

TEST_F(ProposalsTest, TheBudgetEndsTheJob) {
  Begin(RealOptions());
  const std::string job = ExternalJob(2);
  const std::string first = Proposed(Whole(job, "speed 1.3"));
  EXPECT_EQ(VerdictIn(Wait(job, first)), "WIN");
  EXPECT_EQ(VerdictIn(Wait(job, Proposed(Whole(job, "broken")))), "COMPILE_ERROR");
  Watch(job);
  EXPECT_EQ(GetJob(job).state(), v1::JOB_STATE_SUCCEEDED);
  v1::ProposeResponse response;
  EXPECT_EQ(Propose(Whole(job, "speed 1.4"), response).error_details(), "job_ended");
  EXPECT_EQ(GetJob(job).spent().candidates(), 2);
  // What was judged can still be read.
  EXPECT_EQ(VerdictIn(Wait(job, first)), "WIN");
}

TEST_F(ProposalsTest, WaitingEndsInTimeAndNotBefore) {
  StartServer(RealOptions());
  proposals_ = v1::Proposals::NewStub(channel_);
  std::atomic<bool> hold = true;
  StartWorker([&](const WorkUnit& unit) {
    while (unit.kind == UnitKind::kEvaluate && hold) std::this_thread::yield();
    return Answer(unit);
  });
  const std::string job = ExternalJob();
  const std::string candidate = Proposed(Whole(job, "speed 1.2"));
  const auto begin = std::chrono::steady_clock::now();
  v1::WaitProposalResponse answer = Wait(job, candidate, 100);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(100));
  EXPECT_TRUE(answer.feedback_json().empty());
  EXPECT_TRUE(answer.state() == "evaluating" || answer.state() == "queued") << answer.state();
  std::jthread waiter([&] { EXPECT_EQ(VerdictIn(Wait(job, candidate)), "WIN"); });
  hold = false;
  waiter.join();
  grpc::ClientContext context;
  v1::WaitProposalRequest unknown;
  unknown.set_job_id(job);
  unknown.set_candidate("feed");
  EXPECT_EQ(proposals_->WaitProposal(&context, unknown, &answer).error_details(),
            "unknown_candidate");
}

TEST_F(ProposalsTest, WaitsEndWhenTheServerStops) {
  Begin(RealOptions());
  const std::string job = ExternalJob();
  StartWorker([](const WorkUnit& unit) {
    return unit.kind == UnitKind::kEvaluate ? FakeAnswer{} : Answer(unit);
  });
  const std::string candidate = Proposed(Whole(job, "speed 1.2"));
  grpc::Status ended;
  std::jthread waiter([&] {
    grpc::ClientContext context;
    v1::WaitProposalRequest request;
    request.set_job_id(job);
    request.set_candidate(candidate);
    request.set_wait_ms(50'000);
    v1::WaitProposalResponse response;
    ended = proposals_->WaitProposal(&context, request, &response);
  });
  std::this_thread::yield();
  server_->Shutdown();
  waiter.join();
  EXPECT_FALSE(ended.ok());
}

TEST_F(ProposalsTest, QueuedProposalsSurviveARestart) {
  Begin(RealOptions());
  const std::string job = ExternalJob();
  worker_.reset();
  const std::string candidate = Proposed(Whole(job, "speed 1.4", "k"));
  server_.reset();
  Begin(RealOptions());
  EXPECT_EQ(VerdictIn(Wait(job, candidate)), "WIN");
  v1::ProposeResponse response;
  ASSERT_TRUE(Propose(Whole(job, "speed 1.4", "k"), response).ok());
  EXPECT_EQ(response.candidate(), candidate);
}

TEST_F(ProposalsTest, ATokenOpensItsJobAlone) {
  Begin(RealOptions());
  const std::string job = ExternalJob();
  const std::string other = ExternalJob();
  grpc::ClientContext context;
  v1::CreateProposeTokenRequest create;
  create.set_job_id(job);
  v1::CreateProposeTokenResponse created;
  ASSERT_TRUE(proposals_->CreateProposeToken(&context, create, &created).ok());
  const auto holder = Connect({.endpoint = server_->endpoints().front(), .token = created.token()});
  const auto operators = std::move(stub_);
  const auto open = std::move(proposals_);
  proposals_ = v1::Proposals::NewStub(holder);
  stub_ = v1::Optimizer::NewStub(holder);
  EXPECT_EQ(VerdictIn(Wait(job, Proposed(Whole(job, "speed 1.1")))), "WIN");
  v1::ProposeResponse response;
  EXPECT_EQ(Propose(Whole(other, "speed 1.1"), response).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  grpc::ClientContext second;
  v1::ListJobsResponse jobs;
  EXPECT_EQ(stub_->ListJobs(&second, v1::ListJobsRequest(), &jobs).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  grpc::ClientContext third;
  EXPECT_EQ(proposals_->CreateProposeToken(&third, create, &created).error_code(),
            grpc::StatusCode::PERMISSION_DENIED);
  const auto liar = Connect({.endpoint = server_->endpoints().front(),
                             .token = "fpt-" + job + "-" + std::string(48, '0')});
  proposals_ = v1::Proposals::NewStub(liar);
  EXPECT_EQ(Propose(Whole(job, "speed 1.6"), response).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(ProposalsTest, TheTunerFitsWhatAProposalAsksFor) {
  // BLOCK 4 is the fastest of 1 to 6: 1.6 against the 1.3 of the baseline, which has BLOCK 1.
  StartServer(RealOptions());
  proposals_ = v1::Proposals::NewStub(channel_);
  StartWorker([](const WorkUnit& unit) -> FakeAnswer {
    if (unit.kind == UnitKind::kRegister) return {.result = PassedRegistration(unit)};
    const auto speed = [](const KernelUnderTest& kernel) {
      const auto block = kernel.values.find("BLOCK");
      return block == kernel.values.end()
                 ? 1.0
                 : 1.6 - 0.1 * std::abs(4 - static_cast<double>(block->second));
    };
    const double incumbent = unit.incumbent.has_value() ? speed(*unit.incumbent) : 1;
    return {.result = MeasuredResult(unit, speed(unit.candidate) / speed(unit.denominator),
                                     speed(unit.candidate) / incumbent)};
  });
  const std::string job = ExternalJob();
  v1::ProposeRequest request = Whole(job, "tunable");
  request.mutable_change()->set_kernel_json(json{
      {"source", ScaleTask(1)["kernel.cu"] + "// BLOCK\n"},
      {"tunables", {{"BLOCK", {1, 2, 3, 4, 5, 6}}}},
      {"values", {{"BLOCK", 1}}}}.dump());
  request.set_fit(6);
  const std::string first = Proposed(request);
  while (GetJob(job).candidate_count() < 6 || GetJob(job).best_ratio_tuned() < 1.22) {
    std::this_thread::yield();
  }
  EXPECT_EQ(GetJob(job).spent().candidates(), 6);
  const std::vector<v1::Candidate> rows = Candidates(job);
  EXPECT_EQ(rows[0].digest(), first);
  for (std::size_t i = 1; i < rows.size(); ++i) EXPECT_EQ(rows[i].parent(), first);
}

TEST_F(ProposalsTest, BriefAttemptsAndClaims) {
  Begin(RealOptions());
  const std::string job = ExternalJob();
  for (const char* section :
       {"overview", "source", "plan", "task", "reference", "hardware", "rules"}) {
    grpc::ClientContext context;
    v1::GetBriefRequest request;
    request.set_job_id(job);
    request.set_section(section);
    v1::GetBriefResponse response;
    const grpc::Status status = proposals_->GetBrief(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_LE(response.document_json().size(), 24'000U);
    const json document = json::parse(response.document_json());
    EXPECT_EQ(document["section"], section);
    if (document.contains("text")) {
      EXPECT_FALSE(document["text"].get<std::string>().empty()) << section;
    }
  }
  const std::string candidate = Proposed(Whole(job, "speed 1.25"));
  Wait(job, candidate);
  grpc::ClientContext context;
  v1::ListAttemptsRequest list;
  list.set_job_id(job);
  list.set_order("best");
  v1::ListAttemptsResponse attempts;
  ASSERT_TRUE(proposals_->ListAttempts(&context, list, &attempts).ok());
  const json rows = json::parse(attempts.attempts_json());
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["verdict"], "WIN");
  EXPECT_EQ(rows[0]["rationale"], "because");
  // An accepted candidate has a variant, by which it can be shown and started from too.
  const std::string variant = rows[0]["variant"];
  EXPECT_EQ(json::parse(attempts.bar_json())["incumbent"]["variant"], variant);
  const auto show = [&](const std::string& name, const char* part, v1::ShowAttemptResponse& shown) {
    grpc::ClientContext one;
    v1::ShowAttemptRequest request;
    request.set_job_id(job);
    request.set_candidate(name);
    request.set_part(part);
    return proposals_->ShowAttempt(&one, request, &shown);
  };
  for (const char* part : {"feedback", "source", "kernel"}) {
    for (const std::string& name : {std::string("incumbent"), variant, variant.substr(0, 8)}) {
      v1::ShowAttemptResponse shown;
      const grpc::Status status = show(name, part, shown);
      ASSERT_TRUE(status.ok()) << name << ": " << status.error_message();
      EXPECT_EQ(json::parse(shown.document_json())["candidate"], candidate);
    }
  }
  v1::ShowAttemptResponse shown;
  EXPECT_EQ(show("v000000000000000", "source", shown).error_code(), grpc::NOT_FOUND);
  // What another job accepted is that job's.
  {
    const std::string other = ExternalJob();
    v1::ShowAttemptResponse foreign;
    grpc::ClientContext one;
    v1::ShowAttemptRequest request;
    request.set_job_id(other);
    request.set_candidate(variant);
    EXPECT_EQ(proposals_->ShowAttempt(&one, request, &foreign).error_code(), grpc::NOT_FOUND);
  }
  const auto claim = [&](const std::string& holder, bool give_back) {
    grpc::ClientContext one;
    v1::ClaimDirectionRequest request;
    request.set_job_id(job);
    request.set_direction("split-k");
    request.set_holder(holder);
    request.set_give_back(give_back);
    v1::ClaimDirectionResponse response;
    EXPECT_TRUE(proposals_->ClaimDirection(&one, request, &response).ok());
    return response;
  };
  EXPECT_TRUE(claim("a", false).granted());
  EXPECT_FALSE(claim("b", false).granted());
  EXPECT_TRUE(claim("a", false).granted());  // Renewed.
  EXPECT_EQ(json::parse(claim("b", true).claims_json()).size(), 1U);
  EXPECT_EQ(json::parse(claim("a", true).claims_json()).size(), 0U);
  EXPECT_TRUE(claim("b", false).granted());
}

TEST_F(ProposalsTest, TriesAreOutsideTheCandidatesAndCharged) {
  Begin(RealOptions());
  const std::string job = ExternalJob();
  const auto attempt = [&](const std::string& mode, const std::string& marker,
                           v1::TryProposalResponse& response) {
    grpc::ClientContext context;
    v1::TryProposalRequest request;
    request.set_job_id(job);
    request.set_mode(mode);
    *request.mutable_change() = Whole(job, marker).change();
    return proposals_->TryProposal(&context, request, &response);
  };
  v1::TryProposalResponse response;
  for (const char* mode : {"compile", "check", "bugs", "counters", "measure"}) {
    const grpc::Status status = attempt(mode, "speed 1.2", response);
    ASSERT_TRUE(status.ok()) << mode << status.error_message();
    EXPECT_EQ(json::parse(response.feedback_json())["passed"], true);
  }
  EXPECT_NEAR(json::parse(response.feedback_json())["ratio"].get<double>(), 1.2, 0.01);
  ASSERT_TRUE(attempt("compile", "broken", response).ok());
  EXPECT_EQ(json::parse(response.feedback_json())["passed"], false);
  EXPECT_EQ(attempt("sideways", "x", response).error_details(), "bad_request");
  {
    grpc::ClientContext context;
    v1::TryProposalRequest request;
    request.set_job_id(job);
    request.set_mode("check");
    request.set_only_case("timed/99");
    const grpc::Status status = proposals_->TryProposal(&context, request, &response);
    EXPECT_EQ(status.error_details(), "bad_request") << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("no case \"timed/99\""));
  }
  // 2 ms each by the fake's word; stored with the job's next step.
  while (GetJob(job).spent().device_ms() < 12) std::this_thread::yield();
  EXPECT_EQ(GetJob(job).spent().candidates(), 0);
  EXPECT_TRUE(Candidates(job).empty());
}

TEST_F(ProposalsTest, TriesReserveDeviceTimeBesideOneAnother) {
  StartServer(RealOptions());
  proposals_ = v1::Proposals::NewStub(channel_);
  StartWorker([](const WorkUnit& unit) -> FakeAnswer {
    if (unit.candidate.kernel.source.find("held") != std::string::npos) return {};
    FakeAnswer answer = Answer(unit);
    answer.result->device_ns = 10'000'000;
    return answer;
  });
  v1::SubmitJobRequest submitted = Request("");
  submitted.set_task_blob(PackTaskFiles(ScaleTask(1)));
  submitted.set_proposer("external");
  submitted.mutable_budget()->set_device_ms(65);
  const std::string job = Submit(submitted).id();
  while (GetJob(job).state() == v1::JOB_STATE_QUEUED) std::this_thread::yield();
  const auto attempt = [&](grpc::ClientContext& context, const std::string& marker) {
    v1::TryProposalRequest request;
    request.set_job_id(job);
    request.set_mode("check");
    *request.mutable_change() = Whole(job, marker).change();
    v1::TryProposalResponse response;
    return proposals_->TryProposal(&context, request, &response);
  };
  // Registration, evaluation and confirmation: 30 ms. One more candidate no longer fits.
  const std::string candidate = Proposed(Whole(job, "speed 1.2"));
  ASSERT_FALSE(Wait(job, candidate).feedback_json().empty());
  EXPECT_EQ(GetJob(job).spent().device_ms(), 30);
  {
    grpc::ClientContext context;
    ASSERT_TRUE(attempt(context, "a").ok());
  }
  while (GetJob(job).spent().device_ms() < 40) std::this_thread::yield();
  // 25 ms are left, each reserves 10: of three at once, one is refused while two are held.
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<grpc::Status> ended;
  std::array<grpc::ClientContext, 3> contexts;
  std::vector<std::jthread> callers;
  for (grpc::ClientContext& context : contexts) {
    callers.emplace_back([&] {
      const grpc::Status status = attempt(context, "held");
      const std::lock_guard lock(mutex);
      ended.push_back(status);
      changed.notify_all();
    });
  }
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::minutes(1), [&] { return !ended.empty(); }));
  }
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  callers.clear();  // Joins.
  EXPECT_EQ(ended[0].error_details(), "budget_reserved") << ended[0].error_message();
  EXPECT_EQ(ended[0].error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(ended[0].error_message(), HasSubstr("0.025 s left"));
  EXPECT_EQ(ended[1].error_code(), grpc::CANCELLED);
  EXPECT_EQ(ended[2].error_code(), grpc::CANCELLED);
  EXPECT_EQ(GetJob(job).spent().device_ms(), 40);
}

// A result that nests without end would overflow the stack of whoever copies or prints it.
TEST_F(ProposalsTest, AResultThatNestsWithoutEndIsGivenBack) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  StartServer(RealOptions());
  proposals_ = v1::Proposals::NewStub(channel_);
  StartWorker([deep](const WorkUnit& unit) -> FakeAnswer {
    if (unit.kind == UnitKind::kRegister) return {.result = PassedRegistration(unit)};
    return {.result_text = R"({"unit_id": "x", "attempt": 1, "counters": )" + deep + "}"};
  });
  const std::string job = ExternalJob();
  grpc::ClientContext context;
  v1::TryProposalRequest request;
  request.set_job_id(job);
  request.set_mode("check");
  *request.mutable_change() = Whole(job, "x").change();
  v1::TryProposalResponse response;
  const grpc::Status status = proposals_->TryProposal(&context, request, &response);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.error_message(), HasSubstr("nested more than 64 deep"));
  EXPECT_FALSE(GetJob(job).id().empty());  // The server lives.
}

}  // namespace
}  // namespace fettle
