// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/slurm_client.h"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "core/status_macros.h"

namespace fettle {
namespace {

constexpr std::chrono::milliseconds kCommandLimit{30'000};

// What Slurm's commands say when the controller is away, in all versions.
bool IsAway(const std::string& message) {
  for (const char* sign :
       {"Unable to contact slurm controller", "Connection refused", "Connection reset",
        "connect failure", "Socket timed out", "Zero Bytes were transmitted",
        "Connection timed out", "Transport endpoint", "in standby",
        "Resource temporarily unavailable", "Communication connection failure"}) {
    if (message.find(sign) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<CommandResult> SlurmClient::Call(const std::vector<std::string>& command) {
  absl::StatusOr<CommandResult> result = run_(command, kCommandLimit, stop_);
  if (absl::IsNotFound(result.status())) {
    return absl::FailedPreconditionError(
        fmt::format("{}: not found; the server's machine needs Slurm's commands", command.front()));
  }
  if (!result.ok()) return absl::UnavailableError(StatusText(result.status()));
  if (result->exit_code == 0) return result;
  const std::string message = fmt::format("{}: {}", command.front(), SlurmMessage(result->err));
  if (IsAway(message) || result->exit_code > 128) return absl::UnavailableError(message);
  return absl::FailedPreconditionError(message);
}

absl::StatusOr<std::string> SlurmClient::Submit(const std::vector<std::string>& options) {
  std::vector<std::string> command = {"sbatch", "--parsable"};
  command.insert(command.end(), options.begin(), options.end());
  known_ = false;  // Also after an error: it may have arrived.
  FETTLE_ASSIGN_OR_RETURN(const CommandResult result, Call(command));
  return ParseSbatch(result.out);
}

absl::StatusOr<std::vector<SlurmTask>> SlurmClient::Queue() {
  const auto now = std::chrono::steady_clock::now();
  if (known_ && now - asked_ < fresh_for_) return queue_;
  known_ = false;
  FETTLE_ASSIGN_OR_RETURN(
      const CommandResult result,
      Call({"squeue", "--noheader", "--array", fmt::format("--user={}", geteuid()),
            fmt::format("--format={}", kSqueueFormat)}));
  FETTLE_ASSIGN_OR_RETURN(queue_, ParseSqueue(result.out));
  asked_ = now;
  known_ = true;
  return queue_;
}

absl::Status SlurmClient::Cancel(const std::vector<std::string>& ids) {
  if (ids.empty()) return absl::OkStatus();
  known_ = false;
  std::vector<std::string> command = {"scancel", "--quiet"};
  command.insert(command.end(), ids.begin(), ids.end());
  return Call(command).status();
}

}  // namespace fettle
