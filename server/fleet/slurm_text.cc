// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/slurm_text.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "core/text.h"

namespace fettle {
namespace {

std::optional<std::int64_t> ParseCount(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t next = text.find(at);
    parts.push_back(text.substr(0, next));
    if (next == std::string_view::npos) return parts;
    text.remove_prefix(next + 1);
  }
}

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

bool IsJobId(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<std::int64_t> ParseSlurmTime(std::string_view text) {
  if (text == "UNLIMITED" || text == "INFINITE") return 0;
  std::int64_t days = 0;
  const std::size_t dash = text.find('-');
  const bool with_days = dash != std::string_view::npos;
  if (with_days) {
    const auto count = ParseCount(text.substr(0, dash));
    if (!count) return std::nullopt;
    days = *count;
    text.remove_prefix(dash + 1);
  }
  const std::vector<std::string_view> parts = Split(text, ':');
  if (parts.size() > 3) return std::nullopt;
  // With days the first part is hours; without, one or two parts are minutes and seconds.
  std::size_t unit = with_days || parts.size() == 3 ? 0 : 1;
  constexpr std::array<std::int64_t, 4> kSeconds = {3600, 60, 1, 0};
  std::int64_t total = days * 86'400;
  for (const std::string_view part : parts) {
    const auto count = ParseCount(part);
    if (!count || unit >= 3) return std::nullopt;
    total += *count * kSeconds[unit++];
  }
  return total;
}

absl::StatusOr<std::string> ParseSbatch(std::string_view out) {
  std::string id;
  for (const std::string_view line : Split(out, '\n')) {
    const std::string_view first = Split(Trim(line), ';').front();
    if (IsJobId(first)) id = std::string(first);
  }
  if (!id.empty()) return id;
  return absl::InternalError(
      fmt::format("sbatch printed no job id but \"{}\"", CutText(std::string(Trim(out)), 200)));
}

bool SlurmTask::pending() const {
  return state == "PENDING" || state == "REQUEUED" || state == "REQUEUE_HOLD" ||
         state == "REQUEUE_FED" || state == "SPECIAL_EXIT";
}

bool SlurmTask::running() const {
  return state == "RUNNING" || state == "CONFIGURING" || state == "COMPLETING" ||
         state == "SUSPENDED" || state == "STOPPED" || state == "SIGNALING" ||
         state == "STAGE_OUT" || state == "RESIZING";
}

absl::StatusOr<std::vector<SlurmTask>> ParseSqueue(std::string_view out) {
  std::vector<SlurmTask> tasks;
  for (const std::string_view line : Split(out, '\n')) {
    if (Trim(line).empty()) continue;
    std::vector<std::string_view> fields;
    std::string_view rest = Trim(line);
    while (fields.size() < 4 && rest.find('|') != std::string_view::npos) {
      fields.push_back(rest.substr(0, rest.find('|')));
      rest.remove_prefix(rest.find('|') + 1);
    }
    SlurmTask task;
    // Other jobs of the user may be parts of a heterogeneous job: "12+0".
    if (fields.size() == 4) {
      task.job_id = std::string(fields[0].substr(0, fields[0].find_first_of("_+")));
    }
    if (fields.size() != 4 || !IsJobId(task.job_id)) {
      return absl::InternalError(fmt::format("squeue printed a line of another form: \"{}\"",
                                             CutText(std::string(line), 200)));
    }
    task.id = std::string(fields[0]);
    task.state = std::string(fields[1]);
    task.held_s = ParseSlurmTime(fields[2]).value_or(0);
    task.name = std::string(fields[3]);
    const std::string_view reason = Trim(rest);
    if (reason != "None" && reason != "(null)") task.reason = std::string(reason);
    tasks.push_back(std::move(task));
  }
  return tasks;
}

std::string SlurmMessage(std::string_view err) {
  std::string message;
  for (std::string_view line : Split(err, '\n')) {
    line = Trim(line);
    for (const std::string_view prefix :
         {"sbatch: ", "squeue: ", "scancel: ", "error: ", "fatal: "}) {
      if (line.starts_with(prefix)) line.remove_prefix(prefix.size());
    }
    if (line.empty()) continue;
    if (!message.empty()) message += "; ";
    message += line;
  }
  return CutText(message, 500);
}

std::string ShellQuote(std::string_view word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_./:=,+@%-").find(c) != std::string_view::npos;
  });
  if (plain) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace fettle
