// SPDX-License-Identifier: Apache-2.0
#pragma once

// What Slurm's commands print, and what they are given. Only options and formats that stayed the
// same from 22.05 on.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>

namespace fettle {

// "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours[:minutes[:seconds]]";
// "UNLIMITED" is 0. Unset: none of these, as "INVALID".
std::optional<std::int64_t> ParseSlurmTime(std::string_view text);

// The job id that `sbatch --parsable` printed: "12" or "12;cluster", perhaps after other lines.
// kInternal: there is none.
absl::StatusOr<std::string> ParseSbatch(std::string_view out);

// One job, or one task of a job array.
struct SlurmTask {
  std::string id;      // "12" or "12_3", as scancel takes it.
  std::string job_id;  // "12"
  std::string name;
  std::string state;   // "PENDING", "RUNNING", ...
  std::string reason;  // "Resources"; "None" and the like are empty.
  std::int64_t held_s = 0;

  bool pending() const;
  // Holds its place: running, or on its way in or out.
  bool running() const;
};

// For `squeue --noheader --array --format=`. The reason comes last: it may hold anything.
inline constexpr char kSqueueFormat[] = "%i|%T|%M|%j|%r";
// kInternal: a line has another form, which is quoted.
absl::StatusOr<std::vector<SlurmTask>> ParseSqueue(std::string_view out);

// A command's message on one line, without what each of its lines begins with ("sbatch: error: ").
std::string SlurmMessage(std::string_view err);

// A word for a shell script, quoted where needed.
std::string ShellQuote(std::string_view word);

}  // namespace fettle
