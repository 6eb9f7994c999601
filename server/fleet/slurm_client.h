// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "server/fleet/run_command.h"
#include "server/fleet/slurm_text.h"

namespace fettle {

// Slurm by its commands. Errors of all calls: kUnavailable: Slurm does not answer;
// kFailedPrecondition: it refuses, with its words; kInternal: it prints what is not understood.
// One thread at a time.
class SlurmClient {
 public:
  using Runner = std::function<absl::StatusOr<CommandResult>(
      const std::vector<std::string>&, std::chrono::milliseconds, std::stop_token)>;
  // `run`: RunCommand, or of tests. The queue is asked for once in `fresh_for`, whoever looks.
  // `stop` ends a command that is under way (kUnavailable).
  explicit SlurmClient(std::chrono::milliseconds fresh_for, Runner run = RunCommand,
                       std::stop_token stop = {})
      : fresh_for_(fresh_for), run_(std::move(run)), stop_(std::move(stop)) {}

  // Submits; `options` are sbatch's, the script last. Returns the job's id.
  absl::StatusOr<std::string> Submit(const std::vector<std::string>& options);
  // This user's jobs, each task of an array on its own.
  absl::StatusOr<std::vector<SlurmTask>> Queue();
  // Of ids that are gone nothing is said.
  absl::Status Cancel(const std::vector<std::string>& ids);

 private:
  absl::StatusOr<CommandResult> Call(const std::vector<std::string>& command);

  const std::chrono::milliseconds fresh_for_;
  const Runner run_;
  const std::stop_token stop_;
  std::vector<SlurmTask> queue_;
  std::chrono::steady_clock::time_point asked_{};
  bool known_ = false;
};

}  // namespace fettle
