// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <stop_token>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace fettle {

struct CommandResult {
  int exit_code = 0;  // 128 + the signal when one ended it.
  std::string out, err;
};

// Runs a program (found by PATH, no shell) without input and waits for it. Of this process's
// environment it gets what a login has and what is Slurm's own, never keys of model providers.
// kNotFound: there is no such program. kDeadlineExceeded: it was killed after `limit`. kCancelled:
// it was killed because of `stop`. kInternal: it could not be started. Thread-safe.
absl::StatusOr<CommandResult> RunCommand(const std::vector<std::string>& command,
                                         std::chrono::milliseconds limit,
                                         std::stop_token stop = {});

}  // namespace fettle
