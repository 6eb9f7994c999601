// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include "cli/budget_flags.h"
#include "cli/built_elsewhere.h"
#include "cli/child_server.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/facts_text.h"
#include "cli/finish_bundle.h"
#include "cli/format.h"
#include "cli/job_view.h"
#include "cli/local.h"
#include "cli/paths.h"
#include "cli/report.h"
#include "cli/submit.h"
#include "cli/task_folder.h"
#include "cli/verify_bundle.h"
#include "core/json_text.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "exporter/bundle.h"
#include "proto/wire_json.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

// A bundled task's folder: in the source tree of a build, or installed beside the binary.
absl::StatusOr<std::string> BundledTask(const std::string& name) {
  const fs::path program(ProgramFolder());
  for (const fs::path& tasks : {program / "../../tasks", program / "../share/fettle/tasks"}) {
    std::error_code error;
    const fs::path folder = fs::weakly_canonical(tasks / name, error);
    if (!error && fs::exists(folder / "task.yaml", error)) return folder.string();
  }
  return absl::NotFoundError(fmt::format(
      "find the bundled task {}: not beside this binary; give a folder with --task", name));
}

// The bundled recording (data/recordings) and its task.
constexpr char kReplayedTask[] = "rmsnorm";
constexpr char kRecording[] = "rmsnorm-cpu";

class DemoCommand final : public Subcommand {
 public:
  std::string name() const override { return "demo"; }
  std::string summary() const override {
    return "optimize a bundled task, export the winner and verify the bundle";
  }
  std::string details() const override {
    return "Starts a server on its own data folder unless one answers there. Without a budget\n"
           "of its own the job ends with the first variant that is accepted.\n"
           "Exit code: 0 a variant was accepted and its bundle verified, 1 not.";
  }
  void Declare(FlagSet& flags) override {
    flags
        .Flag("--data-dir", "DIR", &data_, "data folder (default: demo in the default data folder)")
        .Alias("--data")
        .completes = Completes::kFolder;
    flags.Flag("--task", "TASK", &task_, "task folder (default: the bundled layernorm)").completes =
        Completes::kFolder;
    flags.Flag("--target", "T", &target_, "architecture (default auto: the best device found)");
    flags.Flag("--out", "DIR", &out_, "bundle folder (default: in the data folder)").completes =
        Completes::kFolder;
    flags.Flag("--seed", "N", &seed_, "seed of the search (default: drawn)");
    flags
        .Flag("--proposer", "P", &proposer_,
              "tuner (default), or replay: candidates that were recorded from earlier work")
        .choices = {"tuner", "replay"};
    flags.Flag("--recording", "NAME", &recording_, "with replay: which (default: the bundled one)");
    budget_.Declare(flags);
    flags.Flag("--json", "", &json_, "print the summary as JSON");
  }
  absl::StatusOr<ExitCode> Run(Context& context) override;

 private:
  absl::StatusOr<v1::Job> Optimize(Context& context, OptimizerClient& client);
  void WaitForOthers(Context& context, OptimizerClient& client);
  absl::StatusOr<std::string> Export(Context& context, OptimizerClient& client,
                                     const v1::Variant& variant, const std::string& data);
  // The winner for a GPU that is not here, where a compiler for it is.
  void ShowElsewhere(Terminal& terminal, const v1::Variant& variant) const;
  absl::StatusOr<ExitCode> Summarize(Context& context, const v1::Variant& variant,
                                     const std::string& bundle,
                                     const std::vector<RerunReport>& reruns);

  std::string data_, task_, out_;
  std::string target_ = "auto";
  std::string proposer_ = "tuner", recording_;
  std::string seed_;
  BudgetFlags budget_;
  bool json_ = false;
};

absl::StatusOr<ExitCode> DemoCommand::Run(Context& context) {
  const std::string data = data_.empty() ? DataFolder("") + "/demo" : DataFolder(data_);
  ConnectionFlags connection;
  connection.data = data;
  FETTLE_ASSIGN_OR_RETURN(const auto client, OptimizerClient::Connect(connection));
  std::unique_ptr<ChildServer> server;
  if (!client->GetServerInfo().ok()) {
    FETTLE_ASSIGN_OR_RETURN(server, ChildServer::Start(data, context.stop));
  }
  if (server != nullptr) {
    context.terminal.Note("dashboard, while it runs: " + server->dashboard_link());
  }
  FETTLE_ASSIGN_OR_RETURN(const v1::Job job, Optimize(context, *client));
  if (job.best_variant_id().empty()) {
    if (server != nullptr) WaitForOthers(context, *client);
    return ExitCode::kNo;
  }
  // Another demo's server may have ended with its own job.
  if (server == nullptr && !client->GetServerInfo().ok()) {
    FETTLE_ASSIGN_OR_RETURN(server, ChildServer::Start(data, context.stop));
  }
  FETTLE_ASSIGN_OR_RETURN(const v1::Variant variant, client->GetVariant(job.best_variant_id()));
  FETTLE_ASSIGN_OR_RETURN(const std::string bundle, Export(context, *client, variant, data));
  if (server != nullptr) WaitForOthers(context, *client);
  server.reset();  // Its worker leaves the device to the rerun.
  FETTLE_ASSIGN_OR_RETURN(const BundleFiles files, ReadBundle(bundle));
  FETTLE_ASSIGN_OR_RETURN(const BundleReport report,
                          RequireWholeBundle(files, "verify the bundle " + bundle));
  context.terminal.Note("verifying the bundle by running it again");
  FETTLE_ASSIGN_OR_RETURN(const auto reruns,
                          RerunBundle(context, LocalFlags(), bundle, files, report));
  return Summarize(context, variant, bundle, reruns);
}

// Jobs that others gave to this demo's server end before it does.
void DemoCommand::WaitForOthers(Context& context, OptimizerClient& client) {
  bool said = false;
  while (!context.stop.stop_requested()) {
    const auto jobs = client.ListJobs(50);
    if (!jobs.ok()) return;
    const auto open = std::count_if(jobs->begin(), jobs->end(), [](const v1::Job& job) {
      return job.state() == v1::JOB_STATE_QUEUED || job.state() == v1::JOB_STATE_RUNNING;
    });
    if (open == 0) return;
    if (!said) context.terminal.Note(fmt::format("waiting for {} other jobs of this server", open));
    said = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

absl::StatusOr<v1::Job> DemoCommand::Optimize(Context& context, OptimizerClient& client) {
  const bool replay = proposer_ == "replay";
  if (task_.empty()) {
    FETTLE_ASSIGN_OR_RETURN(task_, BundledTask(replay ? kReplayedTask : "layernorm"));
  }
  FETTLE_ASSIGN_OR_RETURN(const TaskFiles files, ReadTaskFolder(task_));
  SubmitRequest request;
  request.target = target_;
  request.proposer = proposer_;
  FETTLE_ASSIGN_OR_RETURN(request.seed, ParseSeed(seed_));
  if (replay) {
    context.terminal.Note("a replay of recorded work: no model is asked");
    request.recording = recording_.empty() ? kRecording : recording_;
    if (target_ == "auto") request.target = "cpu";  // What it was recorded on.
  }
  if (budget_.empty()) {
    budget_.candidates = replay ? 12 : 6;
    budget_.minutes = 5;
    if (!replay) request.options = {"speedup_stop=1"};  // With the first variant.
  }
  FETTLE_ASSIGN_OR_RETURN(request.budget, budget_.ToWire());
  FETTLE_ASSIGN_OR_RETURN(const v1::Job job, SubmitTask(context, client, files, request));
  const absl::Status followed =
      FollowJob(context, client, job, 0, /*json=*/false, /*patience_s=*/60).status();
  if (absl::IsCancelled(followed)) {
    return absl::CancelledError(fmt::format(
        "stopped, with its server; job {} is kept and goes on with the next server on its data "
        "folder: fettle serve --data-dir {}",
        job.id(), data_.empty() ? DataFolder("") + "/demo" : DataFolder(data_)));
  }
  FETTLE_RETURN_IF_ERROR(followed);
  return client.GetJob(job.id());
}

absl::StatusOr<std::string> DemoCommand::Export(Context& context, OptimizerClient& client,
                                                const v1::Variant& variant,
                                                const std::string& data) {
  v1::ExportBundleRequest request;
  request.add_variant_ids(variant.id());
  FETTLE_ASSIGN_OR_RETURN(const std::string bytes, client.ExportBundle(request));
  FETTLE_ASSIGN_OR_RETURN(const BundleFiles plain, UnpackBundle(bytes));
  std::vector<std::string> notes;
  FETTLE_ASSIGN_OR_RETURN(const BundleFiles files,
                          FinishBundle(context, plain, FinishOptions(), &notes));
  for (const std::string& note : notes) context.terminal.Note(Printable(note));
  const std::string bundle =
      out_.empty() ? fmt::format("{}/bundles/{}-{}", data, variant.task_name(), variant.id())
                   : out_;
  FETTLE_RETURN_IF_ERROR(WriteBundle(bundle, files));
  return bundle;
}

void DemoCommand::ShowElsewhere(Terminal& terminal, const v1::Variant& variant) const {
  constexpr const char* kElsewhere = "gfx950";
  const auto values = ParseJson(variant.values_json());
  const absl::StatusOr<TaskFiles> files = ReadTaskFolder(task_);
  if (variant.target() == kElsewhere || !values.is_object() || !files.ok()) return;
  std::vector<TaskProblem> problems;
  const auto task = Task::Parse(*files, &problems);
  if (!task.ok()) return;
  terminal.Status(fmt::format("compiling the winner for {}", kElsewhere));
  const absl::StatusOr<BuiltElsewhere> built = BuildElsewhere(
      **task, values.get<TunableValues>(), kElsewhere, LocalFlags().ToOptions().cache_dir);
  terminal.Status("");
  if (!built.ok()) {
    terminal.Print(Printable(fmt::format("  for {}: not built: {}", kElsewhere,
                                         std::string(built.status().message()).substr(0, 200))));
    return;
  }
  terminal.Print(Printable(fmt::format("  for {}: compiled_only, by {}; it has run nowhere",
                                       built->target, built->compiler)));
  for (const nlohmann::json& build : built->builds) {
    terminal.Raw(FactsText(build["facts"], terminal.width()));
  }
}

absl::StatusOr<ExitCode> DemoCommand::Summarize(Context& context, const v1::Variant& variant,
                                                const std::string& bundle,
                                                const std::vector<RerunReport>& reruns) {
  const bool verified = !reruns.empty() && reruns[0].skipped.empty() && reruns[0].outcome.passed;
  const RerunOutcome outcome = reruns.empty() ? RerunOutcome() : reruns[0].outcome;
  if (json_) {
    context.terminal.Print(nlohmann::json{
        {"variant", ToJson(variant)},
        {"bundle", bundle},
        {"verified", verified},
        {"rerun",
         outcome.evidence}}.dump(2, ' ', false, kReplaceInvalid));
    return verified ? ExitCode::kOk : ExitCode::kNo;
  }
  Terminal& terminal = context.terminal;
  terminal.Print("");
  terminal.Print(terminal.Bold(Printable(fmt::format("{} on {} ({})", variant.task_name(),
                                                     variant.target(), variant.device_model()))));
  terminal.Print(Printable(
      fmt::format("  winning configuration: {}", FormatValuesText(variant.values_json()))));
  terminal.Print(
      fmt::format("  speed-up over {}: {}",
                  variant.is_tuned_baseline() ? "the declared configuration" : "the tuned baseline",
                  FormatInterval(variant.ratio(), variant.ratio_low(), variant.ratio_high())));
  terminal.Print(
      fmt::format("  fraction of the roofline: {}", FormatPercent(variant.roofline_fraction())));
  terminal.Print(Printable(fmt::format(
      "  run again from the bundle: {}",
      verified ? FormatInterval(outcome.ratio, outcome.ratio_low, outcome.ratio_high)
               : "FAILED: " + (reruns.empty() || reruns[0].skipped.empty() ? outcome.reason
                                                                           : reruns[0].skipped))));
  terminal.Print(fmt::format("  bundle: {}", bundle));
  terminal.Print(fmt::format("  look at it: fettle serve --data-dir {}",
                             data_.empty() ? DataFolder("") + "/demo" : DataFolder(data_)));
  ShowElsewhere(terminal, variant);
  return verified ? ExitCode::kOk : ExitCode::kNo;
}

}  // namespace

std::unique_ptr<Subcommand> MakeDemoCommand() { return std::make_unique<DemoCommand>(); }

}  // namespace fettle
