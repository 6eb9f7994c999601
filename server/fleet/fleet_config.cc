// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/fleet_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "core/doc.h"
#include "core/portable_target.h"
#include "core/status_macros.h"
#include "server/fleet/slurm_text.h"
#include "store/files.h"

namespace fettle {
namespace {

constexpr int kMaxWidth = 1000;
constexpr std::size_t kMaxNameBytes = 100;

void ReadName(Fields& fields, const std::string& key, std::string* out) {
  const Doc* doc = fields.Find(key);
  if (doc == nullptr) return;
  const auto text = ReadText(*doc, fields.PathOf(key), fields.problems());
  if (!text) return;
  if (!IsFleetName(*text)) {
    fields.problems().Add(*doc, fields.PathOf(key),
                          fmt::format("{}: '{}' is no name of Slurm's", fields.PathOf(key), *text));
    return;
  }
  *out = *text;
}

void ReadAnyText(Fields& fields, const std::string& key, std::string* out) {
  const Doc* doc = fields.Find(key);
  if (doc == nullptr) return;
  if (auto text = ReadText(*doc, fields.PathOf(key), fields.problems())) *out = *std::move(text);
}

template <typename Number>
void ReadNumber(Fields& fields, const std::string& key, std::int64_t low, std::int64_t high,
                Number* out) {
  const Doc* doc = fields.Find(key);
  if (doc == nullptr) return;
  const auto value = ReadInteger(*doc, fields.PathOf(key), fields.problems());
  if (!value) return;
  if (*value < low || *value > high) {
    fields.problems().Add(
        *doc, fields.PathOf(key),
        fmt::format("{}: {} is not from {} to {}", fields.PathOf(key), *value, low, high));
    return;
  }
  *out = static_cast<Number>(*value);
}

void ReadWords(Fields& fields, const std::string& key, std::vector<std::string>* out) {
  const Doc* doc = fields.Find(key);
  if (doc == nullptr) return;
  const std::vector<Doc>* items = ReadList(*doc, fields.PathOf(key), fields.problems());
  if (items == nullptr) return;
  for (const Doc& item : *items) {
    if (auto text = ReadText(item, fields.PathOf(key), fields.problems())) {
      out->push_back(*std::move(text));
    }
  }
}

// What the server itself asks Slurm for, and what has a field of its own; with the short form.
struct OwnOption {
  std::string_view name;
  char letter;
  std::string_view field;
};
constexpr std::array<OwnOption, 15> kOwnOptions = {{
    {"job-name", 'J', ""},
    {"array", 'a', ""},
    {"output", 'o', ""},
    {"error", 'e', ""},
    {"open-mode", 0, ""},
    {"export", 0, ""},
    {"export-file", 0, ""},
    {"chdir", 'D', ""},
    {"wrap", 0, ""},
    {"parsable", 0, ""},
    {"test-only", 0, ""},
    {"wait", 'W', ""},
    {"partition", 'p', "partition"},
    {"account", 'A', "account"},
    {"time", 't', "time"},
}};

// Why `word` cannot be an option of sbatch's here; empty when it can. `before`: the word before it.
std::string OptionProblem(const std::string& word, const std::string& before) {
  const bool takes_value = before.starts_with('-') && before.find('=') == std::string::npos &&
                           (before.starts_with("--") || before.size() == 2);
  if (!word.starts_with('-') || word.size() < 2) {
    if (takes_value) return "";
    return fmt::format("'{}' is no option; sbatch would take it for the job's script", word);
  }
  const bool is_long = word.starts_with("--");
  const std::string name = is_long ? word.substr(2, word.find('=') - 2) : "";
  if (is_long && name.empty()) return "'--' ends the options";
  for (const OwnOption& own : kOwnOptions) {
    // sbatch takes a long option by its beginning too.
    const bool same = is_long ? own.name.starts_with(name) : word[1] == own.letter;
    if (!same) continue;
    return own.field.empty() ? fmt::format("'{}' is the server's own to set (--{})", word, own.name)
                             : fmt::format("'{}': write it as the field '{}'", word, own.field);
  }
  return "";
}

void ReadOptions(Fields& fields, std::vector<std::string>* out) {
  ReadWords(fields, "options", out);
  std::string before;
  for (const std::string& word : *out) {
    if (const std::string problem = OptionProblem(word, before); !problem.empty()) {
      const std::string path = fields.PathOf("options");
      fields.problems().Add(*fields.Find("options"), path, fmt::format("{}: {}", path, problem));
    }
    before = word;
  }
}

bool IsEndpoint(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  int port = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + colon + 1, end, port);
  return error == std::errc() && at == end && port > 0 && port <= 65535;
}

// `compile`: those that only compile for the target, whose own are not read again.
FleetTarget ReadTarget(const Doc& doc, const std::string& path, Problems& problems,
                       FleetTarget* compile) {
  FleetTarget target;
  Fields fields(doc, path, problems);
  if (!fields.valid()) return target;
  if (compile != nullptr) {
    const Doc* nested = fields.Find("compile");
    if (nested != nullptr) *compile = ReadTarget(*nested, path + ".compile", problems, nullptr);
  }
  ReadName(fields, "partition", &target.partition);
  ReadName(fields, "account", &target.account);
  ReadName(fields, "qos", &target.qos);
  ReadName(fields, "gres", &target.gres);
  ReadAnyText(fields, "time", &target.time);
  ReadNumber(fields, "width", 1, kMaxWidth, &target.width);
  if (compile == nullptr) {
    target.devices = 0;
    target.arguments = {"--compile-only"};
  } else {
    ReadNumber(fields, "devices", 1, 64, &target.devices);
  }
  ReadNumber(fields, "idle_s", 1, 86'400, &target.idle_s);
  ReadAnyText(fields, "setup", &target.setup);
  ReadWords(fields, "launch", &target.launch);
  ReadOptions(fields, &target.options);
  ReadWords(fields, "arguments", &target.arguments);
  if (target.width == 0) {
    const Doc* width = fields.Need("width", "how many workers one job may have at most");
    static_cast<void>(width);
  }
  if (!target.time.empty()) {
    const auto seconds = ParseSlurmTime(target.time);
    if (!seconds) {
      problems.Add(*fields.Find("time"), path + ".time",
                   fmt::format("{}.time: '{}' is no time of Slurm's; write minutes or H:MM:SS",
                               path, target.time));
    }
    target.time_s = seconds.value_or(0);
  }
  fields.Finish();
  return target;
}

}  // namespace

bool IsFleetName(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  std::string_view("_.,:+-=/").find(c) != std::string_view::npos;
         });
}

absl::StatusOr<FleetConfig> ParseFleetConfig(const std::string& file, std::string_view text) {
  std::vector<TaskProblem> found;
  Problems problems(file, &found);
  FleetConfig config;
  if (const std::optional<Doc> doc = DocFromYaml(text, problems)) {
    Fields fields(*doc, "", problems);
    if (fields.valid()) {
      ReadAnyText(fields, "endpoint", &config.endpoint);
      if (config.endpoint.empty()) {
        fields.Need("endpoint", "the host:port by which workers reach this server");
      } else if (!IsEndpoint(config.endpoint)) {
        problems.Add(*fields.Find("endpoint"), "endpoint",
                     fmt::format("endpoint: '{}' is no host:port", config.endpoint));
      }
      ReadAnyText(fields, "ca", &config.ca_file);
      ReadAnyText(fields, "server_name", &config.server_name);
      ReadAnyText(fields, "program", &config.program);
      ReadAnyText(fields, "folder", &config.folder);
      ReadNumber(fields, "poll_ms", 100, 600'000, &config.poll_ms);
      if (const Doc* targets = fields.Need("targets", "a map of targets, as cpu or sm_90a")) {
        for (const DocEntry& entry : targets->entries) {
          const std::string path = "targets." + entry.key;
          if (const auto known = FindDeviceTarget(entry.key); !known.ok()) {
            problems.Add(entry.line, entry.column, path, StatusText(known.status()));
          }
          config.targets[entry.key] =
              ReadTarget(entry.value, path, problems, &config.compilers[entry.key]);
        }
        if (targets->entries.empty()) {
          problems.Add(*targets, "targets", "targets: name at least one, as cpu or sm_90a");
        }
      }
      fields.Finish();
    }
  }
  if (found.empty()) return config;
  std::string message = FormatProblems(found);
  while (!message.empty() && message.back() == '\n') message.pop_back();
  return absl::InvalidArgumentError(message);
}

absl::StatusOr<FleetConfig> LoadFleetConfig(const std::string& path) {
  FETTLE_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  return ParseFleetConfig(path, text);
}

}  // namespace fettle
