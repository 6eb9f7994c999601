// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/slurm_pool.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/embedded_file.h"
#include "core/status_macros.h"
#include "server/fleet/worker_script.h"
#include "store/files.h"

namespace fettle {
namespace {

constexpr char kHead[] = "# @HEAD@\n";
constexpr char kSetup[] = "# @SETUP@\n";

void ReplaceLine(std::string& text, std::string_view line, const std::string& with) {
  const std::size_t at = text.find(line);
  FETTLE_CHECK(at != std::string::npos);
  text.replace(at, line.size(), with);
}

std::string Export(const char* name, const std::string& value) {
  return value.empty() ? "" : fmt::format("export {}={}\n", name, ShellQuote(value));
}

std::string Reason(const std::vector<SlurmTask>& tasks) {
  for (const SlurmTask& task : tasks) {
    if (task.pending() && !task.reason.empty()) return task.reason;
  }
  return "";
}

}  // namespace

std::string SlurmScript(const SlurmPoolOptions& options) {
  const FleetTarget& target = options.target;
  std::vector<std::string> words = target.launch;
  words.insert(words.end(),
               {options.program, "worker", "--idle-exit", std::to_string(target.idle_s)});
  words.insert(words.end(), target.arguments.begin(), target.arguments.end());
  std::string head = Export("FETTLE_ENDPOINT", options.endpoint);
  head += Export("FETTLE_TOKEN_FILE", options.token_file);
  head += Export("FETTLE_CA_FILE", options.ca_file);
  head += Export("FETTLE_SERVER_NAME", options.server_name);
  head += fmt::format("limit_s={}\nworker=(", target.time_s);
  for (const std::string& word : words) head += " " + ShellQuote(word);
  head += " )\n";
  std::string script(WorkerScript().front().bytes);
  ReplaceLine(script, kHead, head);
  std::string setup = target.setup;
  if (!setup.empty() && setup.back() != '\n') setup += '\n';
  ReplaceLine(script, kSetup, setup);
  return script;
}

std::vector<std::string> SlurmSubmission(const SlurmPoolOptions& options, int workers,
                                         const std::string& script_file) {
  const FleetTarget& target = options.target;
  std::vector<std::string> words = {
      fmt::format("--job-name={}", options.name),
      fmt::format("--array=0-{}", workers - 1),
      fmt::format("--output={}/worker-%A_%a.log", options.folder),
      "--open-mode=append",
      "--requeue",
      // What RunCommand leaves of it. With NIL or NONE each start would run the user's login shell.
      "--export=ALL",
      "--chdir=/",
  };
  const auto add = [&words](const char* option, const std::string& value) {
    if (!value.empty()) words.push_back(fmt::format("--{}={}", option, value));
  };
  add("partition", target.partition);
  add("account", target.account);
  add("qos", target.qos);
  add("gres", target.gres);
  add("time", target.time);
  words.insert(words.end(), target.options.begin(), target.options.end());
  words.push_back(script_file);
  return words;
}

absl::StatusOr<std::vector<SlurmTask>> SlurmPool::Tasks() {
  FETTLE_ASSIGN_OR_RETURN(std::vector<SlurmTask> tasks, slurm_.Queue());
  std::erase_if(tasks, [this](const SlurmTask& task) { return task.name != options_.name; });
  return tasks;
}

absl::StatusOr<PoolState> SlurmPool::State() {
  FETTLE_ASSIGN_OR_RETURN(const std::vector<SlurmTask> tasks, Tasks());
  PoolState state;
  std::set<std::string> ids;
  for (const SlurmTask& task : tasks) {
    ids.insert(task.job_id);
    if (task.pending()) ++state.pending;
    if (!task.running()) continue;
    ++state.running;
    state.allocations.push_back({task.id, task.held_s});
  }
  state.reason = Reason(tasks);
  if (!ids.empty()) state.name = fmt::format("Slurm job {}", fmt::join(ids, ", "));
  return state;
}

absl::StatusOr<int> SlurmPool::Ensure(int workers) {
  FETTLE_ASSIGN_OR_RETURN(const std::vector<SlurmTask> tasks, Tasks());
  int there = 0;
  std::vector<std::string> waiting;
  for (const SlurmTask& task : tasks) {
    if (task.pending()) waiting.push_back(task.id);
    if (task.pending() || (task.running() && task.state != "COMPLETING")) ++there;
  }
  if (there > workers) {
    const auto surplus = std::min(waiting.size(), static_cast<std::size_t>(there - workers));
    // The youngest: older ones may be next.
    waiting.erase(waiting.begin(), waiting.end() - static_cast<std::ptrdiff_t>(surplus));
    FETTLE_RETURN_IF_ERROR(slurm_.Cancel(waiting));
    return 0;
  }
  const int missing = workers - there;
  if (missing == 0) return 0;
  const std::string script_file = options_.folder + "/worker.sh";
  FETTLE_RETURN_IF_ERROR(WriteFileDurably(script_file, SlurmScript(options_)));
  FETTLE_RETURN_IF_ERROR(slurm_.Submit(SlurmSubmission(options_, missing, script_file)).status());
  return missing;
}

absl::Status SlurmPool::Stop() {
  FETTLE_ASSIGN_OR_RETURN(const std::vector<SlurmTask> tasks, Tasks());
  std::set<std::string> ids;
  for (const SlurmTask& task : tasks) {
    if (task.pending() || (task.running() && task.state != "COMPLETING")) ids.insert(task.job_id);
  }
  return slurm_.Cancel({ids.begin(), ids.end()});
}

}  // namespace fettle
