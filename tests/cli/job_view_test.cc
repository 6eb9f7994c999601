// SPDX-License-Identifier: Apache-2.0
#include "cli/job_view.h"

#include <condition_variable>
#include <mutex>

#include <gtest/gtest.h>

#include "cli/budget_text.h"

namespace fettle {
namespace {

v1::Job SampleJob() {
  v1::Job job;
  job.set_id("job-1");
  job.set_task_name("layernorm_fwd");
  job.set_target("cpu");
  job.set_proposer("tuner");
  job.set_seed(42);
  job.set_state(v1::JOB_STATE_QUEUED);
  job.mutable_budget()->set_candidates(40);
  job.mutable_created()->set_seconds(1000);
  return job;
}

v1::JobEvent At(std::int64_t sequence, std::int64_t seconds) {
  v1::JobEvent event;
  event.set_job_id("job-1");
  event.set_sequence(sequence);
  event.mutable_time()->set_seconds(1000 + seconds);
  return event;
}

v1::JobEvent Judged(std::int64_t sequence, std::int64_t ordinal, const char* verdict) {
  v1::JobEvent event = At(sequence, sequence);
  v1::CandidateJudged& judged = *event.mutable_candidate_judged();
  judged.set_ordinal(ordinal);
  judged.set_values_json(R"({"BLOCK":128})");
  judged.set_verdict(verdict);
  judged.set_reason_code("screened");
  judged.set_ratio(0.9);
  judged.mutable_spent()->set_candidates(ordinal);
  return event;
}

v1::JobEvent Accepted(std::int64_t sequence) {
  v1::JobEvent event = At(sequence, sequence);
  v1::VariantAccepted& accepted = *event.mutable_variant_accepted();
  accepted.set_variant_id("variant-0123456789");
  accepted.set_ratio(1.3);
  accepted.set_ratio_low(1.29);
  accepted.set_ratio_high(1.31);
  accepted.set_values_json(R"({"BLOCK":512})");
  return event;
}

struct Screen {
  explicit Screen(bool is_terminal, bool json = false)
      : terminal([this](std::string_view text) { out += text; },
                 [this](std::string_view text) { err += text; },
                 {.is_terminal = is_terminal, .width = 80}),
        view(terminal, json) {}
  std::string out, err;
  Terminal terminal;
  JobView view;
};

TEST(JobView, PlainLinesForALog) {
  Screen screen(/*is_terminal=*/false);
  v1::Job job = SampleJob();
  screen.view.Begin(job);
  v1::JobEvent stage = At(1, 0);
  stage.mutable_stage_started()->set_stage("register");
  stage.mutable_stage_started()->set_message("testing the task's checker");
  screen.view.OnEvent(stage);
  screen.view.OnEvent(Judged(2, 1, "NO_WIN"));
  screen.view.OnEvent(Accepted(3));
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  job.set_message("budget used up");
  job.set_candidate_count(2);
  (*job.mutable_verdict_counts())["NO_WIN"] = 1;
  (*job.mutable_verdict_counts())["WIN"] = 1;
  job.set_best_variant_id("variant-0123456789");
  job.set_best_ratio_declared(1.3);
  job.mutable_spent()->set_candidates(2);
  job.mutable_spent()->set_device_ms(41'230);
  EXPECT_EQ(screen.view.End(job), ExitCode::kOk);
  EXPECT_EQ(screen.err,
            "job job-1: layernorm_fwd for cpu, proposer tuner, seed 42\n"
            "[    0.0 s] register: testing the task's checker\n"
            "[    2.0 s] #1 BLOCK=128  0.900x  NO_WIN screened\n"
            "[    3.0 s] accepted variant-0123: BLOCK=512  1.300x [1.290, 1.310]\n"
            "job job-1 succeeded: budget used up\n"
            "candidates: 2 (1 NO_WIN, 1 WIN)\n"
            "spent: 2 of 40 candidates, 41.2 device seconds\n"
            "best variant: variant-0123456789 (1.300x over declared)\n"
            "  fettle show variant-0123\n");
  EXPECT_EQ(screen.out, "");
  EXPECT_EQ(screen.view.last_sequence(), 3);
}

TEST(JobView, AStatusLineWithinEightyColumnsOnATerminal) {
  Screen screen(/*is_terminal=*/true);
  screen.view.Begin(SampleJob());
  for (int i = 1; i <= 20; ++i)
    screen.view.OnEvent(Judged(i, i, i % 2 == 0 ? "NO_WIN" : "INCORRECT"));
  // Judged candidates only move the status line.
  EXPECT_EQ(screen.err.find("#7 BLOCK"), std::string::npos);
  const std::size_t last = screen.err.rfind("\r\x1b[K");
  const std::string line = screen.err.substr(last + 4);
  EXPECT_LE(DisplayWidth(line), 79);
  EXPECT_EQ(line, Fit("queued  [#####.....] 20/40 candidates  best none yet  #20 INCORRECT 10 "
                      "NO_WIN 10",
                      79));
}

// What a call under way may cost is spent before any event tells of it.
TEST(JobView, TheStatusLineShowsWhatIsSpentBetweenEvents) {
  Screen screen(/*is_terminal=*/true);
  v1::Job job = SampleJob();
  job.mutable_budget()->set_tokens(200'000);
  job.mutable_budget()->set_usd(2.5);
  screen.view.Begin(job);
  job.mutable_spent()->set_tokens(120'300);
  job.mutable_spent()->set_usd(0.4215);
  screen.view.OnSpent(job);
  const std::string line = screen.err.substr(screen.err.rfind("\r\x1b[K") + 4);
  EXPECT_NE(line.find("[######....] 120,300/200,000 tokens"), std::string::npos) << line;
  EXPECT_EQ(SpentText(job.spent(), job.budget()),
            "0 of 40 candidates, 120,300 of 200,000 tokens, 0.421 of 2.500 USD");
  EXPECT_EQ(SpentText(v1::Budget(), v1::Budget()), "");
}

// A server whose job spends without an event, and ends once that was asked for twice.
class QuietServer final : public OptimizerClient {
 public:
  absl::StatusOr<v1::Job> GetJob(const std::string&) override {
    v1::Job job = SampleJob();
    job.mutable_budget()->set_tokens(1'000);
    job.mutable_spent()->set_tokens(100 * ++asked);
    job.set_state(asked > 2 ? v1::JOB_STATE_CANCELLED : v1::JOB_STATE_RUNNING);
    return job;
  }
  absl::Status WatchJob(const std::string&, std::int64_t after,
                        const std::function<void(const v1::JobEvent&)>& on_event,
                        std::stop_token stop) override {
    watched.push_back(after);
    if (after == 0) on_event(Judged(5, 1, "NO_WIN"));
    if (asked >= 2) return absl::OkStatus();
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    wake.wait(lock, stop, [] { return false; });
    return absl::CancelledError("stopped");
  }
  absl::StatusOr<v1::Job> Submit(const v1::SubmitJobRequest&) override { return None(); }
  absl::StatusOr<std::vector<v1::Job>> ListJobs(int) override { return None(); }
  absl::StatusOr<v1::Job> CancelJob(const std::string&) override { return None(); }
  absl::StatusOr<v1::Job> ResumeJob(const v1::ResumeJobRequest&) override { return None(); }
  absl::StatusOr<std::vector<v1::Candidate>> ListCandidates(const std::string&, const std::string&,
                                                            int) override {
    return None();
  }
  absl::StatusOr<v1::Candidate> GetCandidate(const std::string&, const std::string&) override {
    return None();
  }
  absl::StatusOr<std::vector<v1::Variant>> ListVariants(const v1::ListVariantsRequest&,
                                                        int) override {
    return None();
  }
  absl::StatusOr<v1::Variant> GetVariant(const std::string&) override { return None(); }
  absl::StatusOr<v1::CheckTaskResponse> CheckTask(const v1::CheckTaskRequest&) override {
    return None();
  }
  absl::StatusOr<std::string> TryKernel(const v1::TryKernelRequest&) override { return None(); }
  absl::StatusOr<std::string> ExportBundle(const v1::ExportBundleRequest&) override {
    return None();
  }
  absl::StatusOr<std::vector<v1::Worker>> ListWorkers() override { return None(); }
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo() override { return None(); }

  int asked = 0;
  std::vector<std::int64_t> watched;  // The sequences that it was asked to go on from.

 private:
  static absl::Status None() { return absl::UnimplementedError("not here"); }
};

TEST(JobView, FollowingOnATerminalAsksForWhatIsSpent) {
  Screen screen(/*is_terminal=*/true);
  QuietServer server;
  const std::vector<std::unique_ptr<Subcommand>> none;
  Context context{screen.terminal, {}, "fettle", none};
  const absl::StatusOr<ExitCode> ended =
      FollowJob(context, server, SampleJob(), 0, /*json=*/false, 120, std::chrono::milliseconds(1));
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(server.watched, (std::vector<std::int64_t>{0, 5, 5}));  // No event twice.
  EXPECT_NE(screen.err.find("200/1,000 tokens"), std::string::npos) << screen.err;
  EXPECT_NE(screen.err.find("spent: 0 of 40 candidates, 300 of 1,000 tokens"), std::string::npos);
}

TEST(JobView, OneJsonObjectPerLine) {
  Screen screen(/*is_terminal=*/false, /*json=*/true);
  screen.view.Begin(SampleJob());
  screen.view.OnEvent(Accepted(1));
  v1::Job job = SampleJob();
  job.set_state(v1::JOB_STATE_FAILED);
  EXPECT_EQ(screen.view.End(job), ExitCode::kNo);
  EXPECT_EQ(screen.err, "");
  std::istringstream lines(screen.out);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const auto event = nlohmann::json::parse(line);
  EXPECT_EQ(event["variant_accepted"]["values"]["BLOCK"], 512);
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(nlohmann::json::parse(line)["job"]["state"], "failed");
}

TEST(JobView, UntrustedTextCannotMoveTheCursor) {
  Screen screen(/*is_terminal=*/false);
  v1::JobEvent note = At(1, 0);
  note.mutable_note()->set_text("hello\x1b[2J");
  screen.view.OnEvent(note);
  EXPECT_EQ(screen.err.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace fettle
