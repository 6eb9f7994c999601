// SPDX-License-Identifier: Apache-2.0
#include "cli/job_view.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(screen.view.End(job), ExitCode::kOk);
  EXPECT_EQ(screen.err,
            "job job-1: layernorm_fwd for cpu, proposer tuner, seed 42\n"
            "[    0.0 s] register: testing the task's checker\n"
            "[    2.0 s] #1 BLOCK=128  0.900x  NO_WIN screened\n"
            "[    3.0 s] accepted variant-0123: BLOCK=512  1.300x [1.290, 1.310]\n"
            "job job-1 succeeded: budget used up\n"
            "candidates: 2 (1 NO_WIN, 1 WIN)\n"
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
