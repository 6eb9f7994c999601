// SPDX-License-Identifier: Apache-2.0
#include "cli/submit.h"

#include <charconv>
#include <random>

#include <fmt/format.h>

#include "cli/budget_flags.h"
#include "cli/commands.h"
#include "cli/job_view.h"
#include "cli/task_folder.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/work_unit.h"
#include "proto/wire_json.h"

namespace fettle {
namespace {

std::string DrawRequestId() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

// The options of a request as a JSON object; "name=number" pairs among them.
absl::StatusOr<std::string> OptionsJson(const SubmitRequest& request) {
  const std::vector<std::string>& options = request.options;
  nlohmann::json object = nlohmann::json::object();
  if (!request.model.empty()) object["model"] = request.model;
  if (!request.writer.empty()) object["writer"] = request.writer;
  if (!request.recording.empty()) object["recording"] = request.recording;
  if (!request.account.empty()) object["account"] = request.account;
  if (!request.partition.empty()) object["partition"] = request.partition;
  if (!request.qos.empty()) object["qos"] = request.qos;
  if (options.empty() && object.empty()) return std::string();
  for (const std::string& option : options) {
    const std::size_t equals = option.find('=');
    double value = 0;
    const char* begin = option.data() + (equals == std::string::npos ? option.size() : equals + 1);
    const auto [end, error] = std::from_chars(begin, option.data() + option.size(), value);
    if (equals == std::string::npos || equals == 0 || error != std::errc() ||
        end != option.data() + option.size()) {
      return absl::InvalidArgumentError(
          fmt::format("--option {}: write NAME=NUMBER, as plateau=100", option));
    }
    const bool whole = option.find_first_of(".eE", equals) == std::string::npos;
    object[option.substr(0, equals)] =
        whole ? nlohmann::json(static_cast<std::int64_t>(value)) : nlohmann::json(value);
  }
  return object.dump(-1, ' ', false, kReplaceInvalid);
}

class SubmitCommand final : public Subcommand {
 public:
  std::string name() const override { return "submit"; }
  std::string summary() const override { return "optimize a task's kernel"; }
  std::string details() const override {
    return "Without a limit the job runs for 10 minutes. On a terminal the job is watched; Ctrl-C\n"
           "stops watching, not the job.\n"
           "Exit code when watching: 0 a variant was accepted, 1 none was.";
  }
  void Declare(FlagSet& flags) override {
    flags.Positional("TASK", &task_, "task folder").completes = Completes::kFolder;
    flags.Flag("--target", "T", &request_.target,
               "architecture, as cpu, sm_90a or gfx950 (default auto: the best device found)");
    flags.Flag("--proposer", "P", &request_.proposer, "where candidates come from (default tuner)")
        .choices = {"tuner", "external", "llm", "hybrid", "replay"};
    budget_.Declare(flags);
    flags.Flag("--seed", "N", &seed_, "seed of the search (default: drawn and recorded)");
    flags.Flag("--model", "NAME", &request_.model,
               "llm, hybrid: which model of the server's (default: its own default)");
    flags.Flag("--writer", "NAME", &request_.writer,
               "llm, hybrid: a second model that writes what the first one planned");
    flags.Flag("--recording", "NAME", &request_.recording, "replay: what to replay");
    flags.Flag("--account", "NAME", &request_.account,
               "account that its workers are charged to (docs/fleet.md)");
    flags.Flag("--partition", "NAME", &request_.partition, "partition that they run in");
    flags.Flag("--qos", "NAME", &request_.qos, "their quality of service");
    flags.Flag("--option", "NAME=NUMBER", &request_.options, "further settings of the job");
    flags.Flag("--watch", "", &watch_, "follow the job (default on a terminal)");
    flags.Flag("--no-watch", "", &no_watch_, "only print the job's id");
    flags.Flag("--json", "", &json_, "print JSON, one object per event");
    connection_.Declare(flags);
  }
  absl::StatusOr<ExitCode> Run(Context& context) override {
    FETTLE_ASSIGN_OR_RETURN(request_.seed, ParseSeed(seed_));
    if (budget_.empty()) budget_.minutes = 10;
    FETTLE_ASSIGN_OR_RETURN(request_.budget, budget_.ToWire());
    FETTLE_ASSIGN_OR_RETURN(const TaskFiles files, ReadTaskFolder(task_));
    FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection_));
    FETTLE_ASSIGN_OR_RETURN(const v1::Job job, SubmitTask(context, *client, files, request_));
    if (!no_watch_ && (watch_ || context.terminal.is_terminal())) {
      return FollowJob(context, *client, job, 0, json_, 120);
    }
    context.terminal.Print(json_ ? ToJson(job).dump(2, ' ', false, kReplaceInvalid) : job.id());
    return ExitCode::kOk;
  }

 private:
  std::string task_;
  SubmitRequest request_;
  BudgetFlags budget_;
  std::string seed_;
  bool watch_ = false;
  bool no_watch_ = false;
  bool json_ = false;
  ConnectionFlags connection_;
};

}  // namespace

absl::StatusOr<std::uint64_t> ParseSeed(const std::string& text) {
  if (text.empty()) return 0;
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size()) {
    return absl::InvalidArgumentError(
        fmt::format("--seed {}: write a whole number from 0 to 18446744073709551615", text));
  }
  return seed;
}

absl::Status ReportProblems(Terminal& terminal, const std::string& folder,
                            const std::vector<TaskProblem>& problems) {
  std::string text = FormatProblems(problems);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  terminal.Print(Printable(text));
  return absl::FailedPreconditionError(fmt::format(
      "{} has {} mistake{}; see docs/task-format.md for the format",
      folder.empty() ? "the task" : folder, problems.size(), problems.size() == 1 ? "" : "s"));
}

absl::StatusOr<v1::Job> SubmitTask(Context& context, OptimizerClient& client,
                                   const TaskFiles& files, const SubmitRequest& request) {
  std::vector<TaskProblem> problems;
  const auto task = Task::Parse(files, &problems);
  if (!task.ok()) {
    if (problems.empty()) return task.status();
    return ReportProblems(context.terminal, "", problems);
  }
  v1::SubmitJobRequest wire;
  wire.set_request_id(DrawRequestId());
  wire.set_task_blob(PackTaskFiles(files));
  wire.set_target(request.target);
  wire.set_proposer(request.proposer);
  *wire.mutable_budget() = request.budget;
  wire.set_seed(request.seed);
  FETTLE_ASSIGN_OR_RETURN(*wire.mutable_options_json(), OptionsJson(request));
  absl::StatusOr<v1::Job> job = client.Submit(wire);
  if (absl::IsDeadlineExceeded(job.status())) job = client.Submit(wire);
  return job;
}

std::unique_ptr<Subcommand> MakeSubmitCommand() { return std::make_unique<SubmitCommand>(); }

}  // namespace fettle
