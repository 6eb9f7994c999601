// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "cli/client.h"
#include "cli/subcommand.h"
#include "core/task.h"

namespace fettle {

struct SubmitRequest {
  std::string target = "auto";
  std::string proposer = "tuner";
  v1::Budget budget;
  std::uint64_t seed = 0;               // 0: drawn by the server.
  std::vector<std::string> options;     // "plateau=100"
  std::string model, writer;            // llm, hybrid; empty: the server's default.
  std::string recording;                // replay.
  std::string account, partition, qos;  // Of its workers; empty: the server's own settings.
};

// Parses the task here first, so that its mistakes are shown at once; prints them and returns
// kFailedPrecondition when there are any. Sends it with a fresh request id, once more with the same
// id when the answer was lost.
absl::StatusOr<v1::Job> SubmitTask(Context& context, OptimizerClient& client,
                                   const TaskFiles& files, const SubmitRequest& request);

// `--seed` as given; empty is 0: drawn by the server. kInvalidArgument: no number of 64 bits.
absl::StatusOr<std::uint64_t> ParseSeed(const std::string& text);

// Prints "file:line:column: message" lines on out and counts them in the returned error.
absl::Status ReportProblems(Terminal& terminal, const std::string& folder,
                            const std::vector<TaskProblem>& problems);

}  // namespace fettle
