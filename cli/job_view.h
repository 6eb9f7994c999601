// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "cli/client.h"
#include "cli/subcommand.h"
#include "cli/terminal.h"

namespace fettle {

// Shows a job's events: on a terminal a status line with bars under the lines worth keeping, plain
// lines elsewhere, one JSON object per line with `json`.
class JobView {
 public:
  JobView(Terminal& terminal, bool json) : terminal_(terminal), json_(json) {}

  void Begin(const v1::Job& job);
  void OnEvent(const v1::JobEvent& event);
  // Shows what the job has spent by now, and of what.
  void OnSpent(const v1::Job& job);
  // The summary after the last event, and the answer: kOk when the job has a variant.
  ExitCode End(const v1::Job& job);

  std::int64_t last_sequence() const { return last_sequence_; }

 private:
  void Line(const v1::JobEvent& event, const std::string& text);
  void OnJudged(const v1::JobEvent& event);
  void OnAccepted(const v1::JobEvent& event);
  void UpdateStatus();

  Terminal& terminal_;
  const bool json_;
  v1::Budget budget_, spent_;
  std::int64_t created_ns_ = 0;
  std::int64_t last_sequence_ = 0;
  std::int64_t candidates_ = 0;
  std::map<std::string, std::int64_t> verdicts_;
  std::string stage_ = "queued";
  std::string best_ = "none yet";
};

// Follows a job to its end, over restarts of the server: reconnects after the last sequence seen,
// for at most `patience_s` seconds without an answer. On a terminal it asks for what is spent each
// `spent_every`, since not all that costs makes an event. kCancelled: `context.stop`; the job goes
// on.
absl::StatusOr<ExitCode> FollowJob(
    Context& context, OptimizerClient& client, const v1::Job& job, std::int64_t after_sequence,
    bool json, int patience_s,
    std::chrono::milliseconds spent_every = std::chrono::milliseconds(2'000));

}  // namespace fettle
