// SPDX-License-Identifier: Apache-2.0
#include "cli/job_view.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "cli/budget_text.h"
#include "cli/format.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "proto/wire_json.h"

namespace fettle {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Waits for `time` or until `stop`.
void Pause(milliseconds time, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, time, [] { return false; });
}

}  // namespace

void JobView::Begin(const v1::Job& job) {
  budget_ = job.budget();
  spent_ = job.spent();
  created_ns_ = ToNs(job.created());
  if (json_) return;
  terminal_.Note(Printable(fmt::format("job {}: {} for {}, proposer {}, seed {}", job.id(),
                                       job.task_name(), job.target(), job.proposer(), job.seed())));
  stage_ = JobStateName(job.state());
  UpdateStatus();
}

void JobView::Line(const v1::JobEvent& event, const std::string& text) {
  const double seconds = static_cast<double>(ToNs(event.time()) - created_ns_) / 1e9;
  terminal_.Note(Printable(fmt::format("[{:7.1f} s] {}", std::max(seconds, 0.0), text)));
}

void JobView::OnEvent(const v1::JobEvent& event) {
  last_sequence_ = std::max(last_sequence_, event.sequence());
  if (json_) return terminal_.Print(ToJson(event).dump(-1, ' ', false, kReplaceInvalid));
  switch (event.payload_case()) {
    case v1::JobEvent::kStateChanged: {
      const v1::StateChanged& change = event.state_changed();
      stage_ = JobStateName(change.state());
      if (change.has_spent()) spent_ = change.spent();
      Line(event,
           change.message().empty() ? stage_ : fmt::format("{}: {}", stage_, change.message()));
      break;
    }
    case v1::JobEvent::kStageStarted:
      stage_ = event.stage_started().stage();
      Line(event, event.stage_started().message().empty()
                      ? stage_
                      : fmt::format("{}: {}", stage_, event.stage_started().message()));
      break;
    case v1::JobEvent::kCandidateJudged:
      OnJudged(event);
      break;
    case v1::JobEvent::kVariantAccepted:
      OnAccepted(event);
      break;
    case v1::JobEvent::kNote:
      Line(event, event.note().text());
      break;
    default:
      break;  // An event kind of a newer server.
  }
  UpdateStatus();
}

void JobView::OnJudged(const v1::JobEvent& event) {
  const v1::CandidateJudged& judged = event.candidate_judged();
  candidates_ = std::max(candidates_, judged.ordinal());
  ++verdicts_[judged.verdict()];
  if (judged.has_spent()) spent_ = judged.spent();
  // On a terminal the status line counts them; a log gets each one.
  if (terminal_.is_terminal()) return;
  Line(event,
       fmt::format("#{} {}  {}  {}{}", judged.ordinal(), FormatValuesText(judged.values_json()),
                   FormatRatio(judged.ratio()), judged.verdict(),
                   judged.reason_code().empty() ? "" : " " + judged.reason_code()));
}

void JobView::OnAccepted(const v1::JobEvent& event) {
  const v1::VariantAccepted& accepted = event.variant_accepted();
  best_ = FormatInterval(accepted.ratio(), accepted.ratio_low(), accepted.ratio_high());
  Line(event, fmt::format("accepted {}: {}  {}", ShortId(accepted.variant_id()),
                          FormatValuesText(accepted.values_json()), best_));
}

void JobView::OnSpent(const v1::Job& job) {
  budget_ = job.budget();  // `fettle resume` raises it.
  spent_ = job.spent();
  if (!json_) UpdateStatus();
}

void JobView::UpdateStatus() {
  std::string counts;
  for (const auto& [verdict, count] : verdicts_) {
    counts += fmt::format(" {} {}", verdict, count);
  }
  terminal_.Status(
      Printable(fmt::format("{}  {}  best {}  #{}{}", stage_, NearestBudget(spent_, budget_), best_,
                            candidates_, counts)));
}

ExitCode JobView::End(const v1::Job& job) {
  terminal_.Status("");
  const bool won = job.state() == v1::JOB_STATE_SUCCEEDED && !job.best_variant_id().empty();
  const ExitCode answer = won ? ExitCode::kOk : ExitCode::kNo;
  if (json_) {
    terminal_.Print(nlohmann::json{{"job", ToJson(job)}}.dump(-1, ' ', false, kReplaceInvalid));
    return answer;
  }
  terminal_.Note(Printable(fmt::format("job {} {}{}", job.id(), JobStateName(job.state()),
                                       job.message().empty() ? "" : ": " + job.message())));
  // Sorted: a wire map has no order of its own.
  const std::map<std::string, std::int64_t> verdicts(job.verdict_counts().begin(),
                                                     job.verdict_counts().end());
  std::string counts;
  for (const auto& [verdict, count] : verdicts) {
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, verdict);
  }
  terminal_.Note(fmt::format("candidates: {}{}", job.candidate_count(),
                             counts.empty() ? "" : " (" + counts + ")"));
  if (const std::string spent = SpentText(job.spent(), job.budget()); !spent.empty()) {
    terminal_.Note("spent: " + spent);
  }
  if (job.best_variant_id().empty()) {
    terminal_.Note("no variant was accepted");
    return answer;
  }
  std::string speed = fmt::format("{} over declared", FormatRatio(job.best_ratio_declared()));
  if (job.best_ratio_tuned() > 0) {
    speed += fmt::format(", {} over tuned", FormatRatio(job.best_ratio_tuned()));
  }
  terminal_.Note(fmt::format("best variant: {} ({})", job.best_variant_id(), speed));
  terminal_.Note(fmt::format("  fettle show {}", ShortId(job.best_variant_id())));
  return answer;
}

absl::StatusOr<ExitCode> FollowJob(Context& context, OptimizerClient& client, const v1::Job& job,
                                   std::int64_t after_sequence, bool json, int patience_s,
                                   milliseconds spent_every) {
  JobView view(context.terminal, json);
  view.Begin(job);
  std::int64_t seen = after_sequence;
  auto last_answer = steady_clock::now();
  bool told = false;
  while (true) {
    std::stop_source slice;
    const std::stop_callback ended(context.stop, [&slice] { slice.request_stop(); });
    std::jthread timer;
    if (!json && context.terminal.is_terminal()) {
      timer = std::jthread([&slice, spent_every](std::stop_token stop) {
        Pause(spent_every, std::move(stop));
        slice.request_stop();
      });
    }
    const absl::Status status = client.WatchJob(
        job.id(), seen,
        [&](const v1::JobEvent& event) {
          view.OnEvent(event);
          seen = std::max(seen, event.sequence());
          last_answer = steady_clock::now();
          told = false;
        },
        slice.get_token());
    timer = std::jthread();  // Ends it.
    if (context.stop.stop_requested()) {
      context.terminal.Status("");
      return absl::CancelledError(fmt::format(
          "stopped watching; the job goes on: fettle watch {0}, or fettle cancel {0}", job.id()));
    }
    if (status.ok() || absl::IsCancelled(status)) {
      const absl::StatusOr<v1::Job> now = client.GetJob(job.id());
      if (now.ok() && absl::IsCancelled(status)) {
        view.OnSpent(*now);
        last_answer = steady_clock::now();
        told = false;
        continue;
      }
      if (now.ok() && IsFinal(now->state())) return view.End(*now);
      if (!now.ok() && !absl::IsUnavailable(now.status())) return now.status();
    } else if (!absl::IsUnavailable(status)) {
      return status;
    }
    if (steady_clock::now() - last_answer > std::chrono::seconds(patience_s)) {
      context.terminal.Status("");
      return absl::UnavailableError(
          fmt::format("watch job {}: no answer for {} s ({}); the job resumes when the server is "
                      "back: fettle watch {}",
                      job.id(), patience_s, std::string(status.message()), job.id()));
    }
    if (!told && !json) context.terminal.Note("the server went away; waiting for it");
    told = true;
    Pause(milliseconds(250), context.stop);
  }
}

}  // namespace fettle
