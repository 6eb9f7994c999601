// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace fettle {

// Limits of one child. Those that are 0 are not set.
struct ChildLimits {
  std::chrono::milliseconds wall{0};       // Then the child's process group is killed.
  std::int64_t cpu_seconds = 0;            // RLIMIT_CPU, per process.
  std::int64_t address_space_bytes = 0;    // RLIMIT_AS, per process.
  std::int64_t file_bytes = 0;             // RLIMIT_FSIZE.
  std::int64_t open_files = 0;             // RLIMIT_NOFILE.
  std::int64_t output_bytes = 256 * 1024;  // Kept of what it prints; the rest is read and dropped.
};

struct ChildCommand {
  std::vector<std::string> argv;  // argv[0] is the program: a path, or found in /usr/bin, /bin.
  std::vector<std::string>
      environment;          // "NAME=value"; the whole environment, nothing is inherited.
  std::string working_dir;  // Empty: the caller's.
  std::string input;        // Written to its standard input, which is then closed.
  ChildLimits limits;
};

struct ChildResult {
  int exit_code = -1;  // -1: ended by `signal`.
  int signal = 0;
  bool timed_out = false;  // Killed at the wall limit.
  std::string output;      // Standard output and error, merged.
  bool output_truncated = false;
  std::chrono::nanoseconds elapsed{}, cpu_time{};
  std::int64_t max_rss_bytes = 0;

  bool ok() const { return exit_code == 0 && !timed_out; }
  // "exit code 1", "signal 9 (Killed)", "the time limit".
  std::string Ending() const;
};

// Runs a program to its end in a process group of its own, without core dumps, and with it every
// process it leaves in that group. Safe to call from many threads at once.
//
// Errors: kCancelled (`stop`: the group was killed), kUnavailable (the program cannot be started),
// kResourceExhausted (no process or descriptor to be had).
absl::StatusOr<ChildResult> RunChild(const ChildCommand& command, std::stop_token stop);

// Path of the executable `name`: itself where it is a path, else the first in $PATH, then in `more`
// folders. Empty: there is none.
std::string FindOnPath(const std::string& name, const std::vector<std::string>& more = {});

}  // namespace fettle
