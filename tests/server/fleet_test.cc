// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/fleet.h"

#include <atomic>
#include <csignal>
#include <deque>
#include <fstream>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/fleet/fleet_config.h"
#include "server/fleet/local_pool.h"
#include "server/fleet/run_command.h"
#include "server/fleet/slurm_client.h"
#include "server/fleet/slurm_pool.h"
#include "server/fleet/slurm_text.h"
#include "store/fleet_store.h"
#include "tests/fakes/store_rows.h"
#include "tests/fakes/temporary_folder.h"

namespace fettle {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

std::string Recorded(const std::string& name) {
  std::ifstream in(std::string(FETTLE_SOURCE_DIR) + "/tests/data/slurm/" + name);
  std::ostringstream text;
  text << in.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

TEST(SlurmText, ReadsItsTimes) {
  EXPECT_EQ(ParseSlurmTime("0:07"), 7);
  EXPECT_EQ(ParseSlurmTime("30"), 1800);
  EXPECT_EQ(ParseSlurmTime("4:00:00"), 14'400);
  EXPECT_EQ(ParseSlurmTime("1-02:03:04"), 93'784);
  EXPECT_EQ(ParseSlurmTime("2-12"), 216'000);
  EXPECT_EQ(ParseSlurmTime("UNLIMITED"), 0);
  for (const char* text :
       {"", "INVALID", "1:2:3:4", "-1", "4h", "1-1:1:1:1", "9999999999999999999"}) {
    EXPECT_FALSE(ParseSlurmTime(text).has_value()) << text;
  }
}

TEST(SlurmText, ReadsTheIdOfWhatWasSubmitted) {
  EXPECT_EQ(*ParseSbatch("12\n"), "12");
  EXPECT_EQ(*ParseSbatch("a note of the site\n12;cluster\n"), "12");
  EXPECT_THAT(ParseSbatch("Submitted batch job\n").status().ToString(), HasSubstr("Submitted"));
}

class SlurmVersions : public ::testing::TestWithParam<const char*> {};

TEST_P(SlurmVersions, PrintTheSameQueue) {
  const auto tasks = ParseSqueue(Recorded(std::string("squeue-") + GetParam() + ".txt"));
  ASSERT_TRUE(tasks.ok()) << tasks.status();
  int running = 0, pending = 0;
  for (const SlurmTask& task : *tasks) {
    if (task.name != "fettle-ab-j1") continue;
    EXPECT_EQ(task.id.substr(0, task.job_id.size() + 1), task.job_id + "_");
    if (task.pending()) {
      ++pending;
      EXPECT_EQ(task.reason, "Resources");
      EXPECT_EQ(task.held_s, 0);
    } else if (task.state == "RUNNING") {
      ++running;
      EXPECT_EQ(task.reason, "");
      EXPECT_GT(task.held_s, 0);
    }
  }
  EXPECT_EQ(running, 6);
  EXPECT_EQ(pending, 2);
}
INSTANTIATE_TEST_SUITE_P(Recorded, SlurmVersions, ::testing::Values("22.05.8", "24.11.5"));

TEST(SlurmText, ToleratesOtherJobsOfTheUser) {
  const auto tasks =
      ParseSqueue("3|PENDING|0:00|odd|name|JobHeldUser\n12+1|RUNNING|1:00|het|None\n");
  ASSERT_TRUE(tasks.ok()) << tasks.status();
  EXPECT_EQ(tasks->size(), 2U);
  EXPECT_FALSE(ParseSqueue("slurm_load_jobs error\n").ok());
}

TEST(SlurmText, QuotesForTheShell) {
  EXPECT_EQ(ShellQuote("--time=4:00:00"), "--time=4:00:00");
  EXPECT_EQ(ShellQuote("it's $HOME"), "'it'\\''s $HOME'");
  EXPECT_EQ(ShellQuote(""), "''");
}

TEST(RunCommand, ReportsOutputAndExitCode) {
  const auto result =
      RunCommand({"sh", "-c", "echo out; echo err >&2; exit 3"}, milliseconds(10'000));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->out, "out\n");
  EXPECT_EQ(result->err, "err\n");
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_EQ(RunCommand({"sh", "-c", "kill -9 $$"}, milliseconds(10'000))->exit_code, 137);
  EXPECT_EQ(RunCommand({"fettle-no-such-program"}, milliseconds(10'000)).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(RunCommand, PassesNoSecretsOn) {
  setenv("FETTLE_TEST_API_KEY", "secret", 1);
  setenv("SLURM_TEST", "fine", 1);
  const auto result = RunCommand({"env"}, milliseconds(10'000));
  unsetenv("FETTLE_TEST_API_KEY");
  unsetenv("SLURM_TEST");
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->out, Not(HasSubstr("secret")));
  EXPECT_THAT(result->out, HasSubstr("SLURM_TEST=fine"));
  EXPECT_THAT(result->out, HasSubstr("PATH="));
}

TEST(RunCommand, EndsWhatTakesTooLong) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(RunCommand({"sh", "-c", "sleep 100 & sleep 100"}, milliseconds(100)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(RunCommand, EndsWhatIsStopped) {
  std::stop_source stop;
  const std::jthread stopper([&stop] {
    std::this_thread::sleep_for(milliseconds(50));
    stop.request_stop();
  });
  EXPECT_EQ(RunCommand({"sleep", "100"}, milliseconds(60'000), stop.get_token()).status().code(),
            absl::StatusCode::kCancelled);
}

// A controller that does not answer held the server's shutdown for half a minute.
TEST(FleetThread, StopsWhileSlurmKeepsItWaiting) {
  TemporaryFolder folder;
  StoreOptions options;
  options.data_dir = folder.str() + "/data";
  auto store = Store::Open(std::move(options));
  ASSERT_TRUE(store.ok()) << store.status();
  Dispatcher dispatcher(**store, SystemClock(), {});
  JobTokens tokens(JobTokenKind::kWorker);
  std::atomic<int> asked{0};
  Fleet fleet(
      {}, {.store = **store,
           .dispatcher = dispatcher,
           .tokens = tokens,
           .clock = SystemClock(),
           .data_dir_id = "0123456789",
           .demands = [] { return std::vector<JobDemand>(); },
           .run =
               [&asked](const std::vector<std::string>&, milliseconds limit, std::stop_token stop) {
                 ++asked;
                 return RunCommand({"sleep", "100"}, limit, std::move(stop));
               }});
  fleet.Start();
  while (asked == 0) std::this_thread::yield();
  const auto begin = std::chrono::steady_clock::now();
  fleet.Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(15));
}

TEST(FleetConfig, ReadsAFile) {
  const auto config = ParseFleetConfig("fleet.yaml", R"(
endpoint: build-host:7600
ca: /shared/ca.pem
targets:
  sm_90a:
    partition: gpu
    gres: gpu:h200:1
    time: 4:00:00
    width: 16
    setup: |
      module load cuda
    options: [--mem=64G]
)");
  ASSERT_TRUE(config.ok()) << config.status();
  const FleetTarget& target = config->targets.at("sm_90a");
  EXPECT_EQ(target.width, 16);
  EXPECT_EQ(target.time_s, 14'400);
  EXPECT_EQ(target.setup, "module load cuda\n");
  EXPECT_THAT(target.options, ElementsAre("--mem=64G"));
}

TEST(FleetConfig, ReadsWorkersThatOnlyCompile) {
  const auto config = ParseFleetConfig("fleet.yaml", R"(
endpoint: build-host:7600
targets:
  sm_90a:
    width: 16
    gres: gpu:h200:1
    compile: {width: 2, partition: batch, options: [--cpus-per-task=16], arguments: [--slots, "8"]}
  cpu: {width: 4}
)");
  ASSERT_TRUE(config.ok()) << config.status();
  const FleetTarget& compile = config->compilers.at("sm_90a");
  EXPECT_EQ(compile.width, 2);
  EXPECT_EQ(compile.devices, 0);
  EXPECT_EQ(compile.gres, "");
  EXPECT_THAT(compile.arguments, ElementsAre("--compile-only", "--slots", "8"));
  EXPECT_EQ(config->targets.at("sm_90a").devices, 1);
  EXPECT_TRUE(config->targets.at("sm_90a").arguments.empty());
  EXPECT_EQ(config->compilers.at("cpu").width, 0) << "it has none";
}

TEST(FleetConfig, NamesEveryMistakeWithItsPlace) {
  const auto config = ParseFleetConfig("fleet.yaml", R"(
endpoint: build-host:7600
targets:
  sm_999: {width: 2}
  cpu: {width: 0, partitoin: x, time: soon, account: "-x"}
  sm_90a: {width: 2, compile: {width: 2, devices: 1}}
)");
  const std::string message(config.status().message());
  EXPECT_THAT(message, HasSubstr("fleet.yaml:4:"));
  EXPECT_THAT(message, HasSubstr("partition"));
  EXPECT_THAT(message, HasSubstr("soon"));
  EXPECT_THAT(message, HasSubstr("'-x'"));
  EXPECT_THAT(message, HasSubstr("width"));
  EXPECT_THAT(message, HasSubstr("6:42: unknown field 'devices'"));
}

TEST(FleetConfig, RefusesOptionsThatAreTheServersOwn) {
  const auto parse = [](const std::string& options, const std::string& endpoint = "host:7600") {
    const auto config = ParseFleetConfig(
        "fleet.yaml",
        "endpoint: \"" + endpoint + "\"\ntargets:\n  cpu: {width: 1, options: " + options + "}\n");
    return config.ok() ? std::string() : std::string(config.status().message());
  };
  for (const char* fine : {"[--exclusive, --time-min=5, --nice=7, -C, gpu, --mem, 4G, -xnode1]",
                           "[]", "[--exclude=node7, --constraint=h200]"}) {
    EXPECT_EQ(parse(fine), "") << fine;
  }
  for (const char* own :
       {"[--job-name=team]", "[--job=x]", "[-Jteam]", "[-J, team]", "[--array=0-3]", "[-a1]",
        "[--output=x]", "[--export=NIL]", "[--wrap, ls]", "[-D/tmp]"}) {
    EXPECT_THAT(parse(own), HasSubstr("targets.cpu.options")) << own;
    EXPECT_THAT(parse(own), HasSubstr("the server's own")) << own;
  }
  EXPECT_THAT(parse("[-p, gpu]"), HasSubstr("write it as the field 'partition'"));
  EXPECT_THAT(parse("[team]"), HasSubstr("script"));
  EXPECT_THAT(parse("[--nice=3, team]"), HasSubstr("script"));
  EXPECT_THAT(parse("[--]"), HasSubstr("ends the options"));
  for (const char* endpoint :
       {"nohost", "host:", "host:port", ":7600", "host:99999", "host:7600x"}) {
    EXPECT_THAT(parse("[]", endpoint), HasSubstr("is no host:port")) << endpoint;
  }
}

// Slurm as its commands show it: remembers what was called, answers as it is told.
class FakeSlurm {
 public:
  absl::StatusOr<CommandResult> operator()(const std::vector<std::string>& command) {
    calls.push_back(command);
    if (away) return CommandResult{1, "", Recorded("sbatch-away-24.11.5.txt")};
    if (command.front() == "squeue") return CommandResult{0, queue, ""};
    if (command.front() == "sbatch" && refuses) {
      return CommandResult{1, "", Recorded("refused-24.11.5.txt")};
    }
    if (command.front() == "sbatch") return CommandResult{0, "12\n", ""};
    return CommandResult{0, "", ""};
  }
  std::vector<std::string> Last(const std::string& program) const {
    for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
      if (call->front() == program) return *call;
    }
    return {};
  }
  SlurmClient::Runner Runner() {
    return [this](const std::vector<std::string>& command, milliseconds, std::stop_token) {
      return (*this)(command);
    };
  }

  std::vector<std::vector<std::string>> calls;
  std::string queue;
  bool away = false, refuses = false;
};

// What a job needs beyond what its device's workers hold is compiled by workers of their own.
TEST(FleetThread, AsksForWorkersThatOnlyCompile) {
  TemporaryFolder folder;
  StoreOptions options;
  options.data_dir = folder.str() + "/data";
  auto store = Store::Open(std::move(options));
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE(InsertFakeJob(**store, "j1").ok());
  Dispatcher dispatcher(**store, SystemClock(), {});
  JobTokens tokens(JobTokenKind::kWorker);
  std::mutex mutex;
  std::map<std::string, std::vector<std::string>> asked;  // sbatch's words by --job-name.
  std::string queue;
  std::int64_t units = 2;
  FleetConfig config;
  config.folder = folder.str() + "/jobs";
  config.program = "fettle";
  config.endpoint = "build-host:7600";
  config.poll_ms = 100;
  config.targets["sm_90a"] = {.partition = "gpu", .gres = "gpu:1", .width = 4};
  config.compilers["sm_90a"] = {
      .partition = "batch", .width = 2, .devices = 0, .arguments = {"--compile-only"}};
  const std::string name = "--job-name=fettle-01234567-j1";
  Fleet fleet(
      config,
      {.store = **store,
       .dispatcher = dispatcher,
       .tokens = tokens,
       .clock = SystemClock(),
       .data_dir_id = "0123456789",
       .demands =
           [&] {
             const std::lock_guard lock(mutex);
             return std::vector<JobDemand>{
                 {.job_id = "j1", .target = "sm_90a", .partition = "gpu-long", .units = units}};
           },
       .run = [&](const std::vector<std::string>& command, milliseconds,
                  std::stop_token) -> absl::StatusOr<CommandResult> {
         const std::lock_guard lock(mutex);
         if (command.front() == "squeue") return CommandResult{0, queue, ""};
         if (command.front() != "sbatch") return CommandResult{0, "", ""};
         for (const std::string& word : command) {
           if (word.starts_with("--job-name=")) asked[word] = command;
         }
         return CommandResult{0, "12\n", ""};
       }});
  const auto has_asked = [&](const std::string& job) {
    const std::lock_guard lock(mutex);
    return asked.contains(job);
  };
  fleet.Start();
  while (!has_asked(name)) std::this_thread::sleep_for(milliseconds(5));
  {
    const std::lock_guard lock(mutex);
    EXPECT_THAT(asked[name], Contains("--partition=gpu-long"));
    EXPECT_FALSE(asked.contains(name + "-compile")) << "two units are held by the device's worker";
    units = 12;
  }
  fleet.Poke();
  while (!has_asked(name + "-compile")) std::this_thread::sleep_for(milliseconds(5));
  {
    const std::lock_guard lock(mutex);
    const std::vector<std::string>& words = asked[name + "-compile"];
    EXPECT_THAT(words, Contains("--array=0-1"));
    EXPECT_THAT(words, Contains("--partition=batch"));
    EXPECT_THAT(words, Not(Contains(HasSubstr("--gres"))));
    std::ifstream script(words.back());
    std::ostringstream text;
    text << script.rdbuf();
    EXPECT_THAT(text.str(), HasSubstr("--compile-only"));
    queue =
        "7_0|RUNNING|1:40|fettle-01234567-j1|None\n"
        "8_0|RUNNING|5:00|fettle-01234567-j1-compile|None\n";
  }
  while (fleet.Counts().running < 2) {
    fleet.Poke();
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_THAT(fleet.Describe("j1"), HasSubstr("; compiling: Slurm job 8"));
  fleet.Stop();
  // No device was held by the one that compiles.
  const absl::Status read = (*store)->Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(const std::int64_t held_s, SumAllocations(db, "j1"));
    EXPECT_EQ(held_s, 100);
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
}

TEST(LocalPool, KeepsSoManyProcesses) {
  LocalPool pool({"/bin/sleep", "100"});
  EXPECT_EQ(*pool.Ensure(2), 2);
  EXPECT_EQ(*pool.Ensure(2), 0);
  while (pool.pids().size() < 2) std::this_thread::yield();
  EXPECT_EQ(pool.State()->running, 2);
  const pid_t victim = pool.pids().front();
  kill(victim, SIGKILL);
  const auto started_again = [&] {
    const std::vector<pid_t> pids = pool.pids();
    return pids.size() == 2 && pids.front() != victim;
  };
  while (!started_again()) std::this_thread::yield();
  EXPECT_TRUE(pool.Stop().ok());
  EXPECT_TRUE(pool.pids().empty());
}

class SlurmPoolTest : public ::testing::Test {
 protected:
  SlurmPoolOptions Options() {
    SlurmPoolOptions options;
    options.name = "fettle-ab-j1";
    options.folder = folder_.str();
    options.program = "/opt/fettle/bin/fettle";
    options.token_file = folder_.str() + "/token";
    options.endpoint = "build-host:7600";
    options.target.partition = "gpu";
    options.target.gres = "gpu:h200:1";
    options.target.time = "4:00:00";
    options.target.time_s = 14'400;
    options.target.setup = "module load cuda";
    options.target.launch = {"apptainer", "exec", "--nv", "a b.sif"};
    options.target.options = {"--mem=64G"};
    return options;
  }

  TemporaryFolder folder_;
  FakeSlurm slurm_;
  SlurmClient client_{milliseconds(0), slurm_.Runner()};
  SlurmPool pool_{client_, Options()};
};

TEST_F(SlurmPoolTest, SubmitsWhatIsMissingAsOneArray) {
  slurm_.queue =
      "7_0|RUNNING|0:05|fettle-ab-j1|None\n7_1|PENDING|0:00|fettle-ab-j1|Priority\n"
      "9_0|RUNNING|9:05|fettle-ab-j2|None\n";
  EXPECT_EQ(*pool_.Ensure(5), 3);
  const std::vector<std::string> call = slurm_.Last("sbatch");
  EXPECT_THAT(call, Contains("--array=0-2"));
  EXPECT_THAT(call, Contains("--gres=gpu:h200:1"));
  EXPECT_THAT(call, Contains("--mem=64G"));
  EXPECT_THAT(call, Contains("--requeue"));
  EXPECT_EQ(call.back(), folder_.str() + "/worker.sh");
  const auto state = pool_.State();
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->running, 1);
  EXPECT_EQ(state->pending, 1);
  EXPECT_EQ(state->reason, "Priority");
  EXPECT_EQ(state->name, "Slurm job 7");
  ASSERT_EQ(state->allocations.size(), 1U);
  EXPECT_EQ(state->allocations[0].id, "7_0");
  EXPECT_EQ(state->allocations[0].held_s, 5);
}

TEST_F(SlurmPoolTest, GivesUpOnlyWhatWaits) {
  slurm_.queue =
      "7_0|RUNNING|0:05|fettle-ab-j1|None\n7_1|PENDING|0:00|fettle-ab-j1|Priority\n"
      "7_2|PENDING|0:00|fettle-ab-j1|Priority\n";
  EXPECT_EQ(*pool_.Ensure(2), 0);
  EXPECT_THAT(slurm_.Last("scancel"), ElementsAre("scancel", "--quiet", "7_2"));
  EXPECT_EQ(*pool_.Ensure(0), 0);
  EXPECT_THAT(slurm_.Last("scancel"), Not(Contains("7_0")));
  EXPECT_TRUE(slurm_.Last("sbatch").empty());
}

TEST_F(SlurmPoolTest, AsksForNothingWhileSlurmIsAway) {
  slurm_.away = true;
  EXPECT_EQ(pool_.Ensure(2).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(slurm_.Last("sbatch").empty()) << "it might submit what is there already";
}

TEST_F(SlurmPoolTest, PassesARefusalOn) {
  slurm_.refuses = true;
  const absl::Status status = pool_.Ensure(2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("invalid partition specified: nope"));
}

TEST_F(SlurmPoolTest, WritesAScriptThatAShellReads) {
  const std::string script = SlurmScript(Options());
  EXPECT_THAT(script, HasSubstr("'a b.sif' /opt/fettle/bin/fettle worker --idle-exit 300"));
  EXPECT_THAT(script, HasSubstr("module load cuda\n"));
  EXPECT_THAT(script, HasSubstr("limit_s=14400"));
  EXPECT_THAT(script, Not(HasSubstr("@HEAD@")));
  EXPECT_THAT(script, Not(HasSubstr("@SETUP@")));
  std::ofstream(folder_.str() + "/script") << script;
  EXPECT_EQ(RunCommand({"bash", "-n", folder_.str() + "/script"}, milliseconds(20'000))->exit_code,
            0);
}

// The loop of the script around programs that end in different ways.
class WorkerScriptTest : public SlurmPoolTest {
 protected:
  CommandResult RunScript(const std::string& worker, const std::string& around) {
    SlurmPoolOptions options = Options();
    options.target.launch.clear();
    options.target.setup.clear();
    options.program = folder_.str() + "/worker";
    std::ofstream(options.program) << "#!/bin/bash\n" << worker;
    std::ofstream(folder_.str() + "/script") << SlurmScript(options);
    const auto result =
        RunCommand({"bash", "-c", "chmod +x \"$0/worker\"; cd \"$0\"; " + around, folder_.str()},
                   milliseconds(50'000));
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : CommandResult{-1, "", ""};
  }
};

TEST_F(WorkerScriptTest, StartsAWorkerThatDiedAgain) {
  const CommandResult result =
      RunScript("echo start\n[ -e died ] && exit 0\ntouch died\nkill -9 $$\n", "bash script");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "start\nstart\n");
}

TEST_F(WorkerScriptTest, LeavesOneThatNeverStarts) {
  const CommandResult result =
      RunScript("echo start\nexit 3\n", "sleep() { :; }; export -f sleep; bash script");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "start\nstart\nstart\nstart\nstart\n");
}

TEST_F(WorkerScriptTest, PassesTheSignalOnAndEnds) {
  const CommandResult result = RunScript(
      "trap 'echo drained; exit 0' TERM\ntouch ready\nwhile :; do sleep 0.05; done\n",
      "bash script & until [ -e ready ]; do sleep 0.02; done; kill -TERM $!; wait $!; echo $?");
  EXPECT_EQ(result.out, "drained\n0\n");
}

TEST_F(WorkerScriptTest, TellsWhenItsTimeIsOver) {
  const CommandResult result = RunScript("echo \"$@\"\n", "SLURM_JOB_END_TIME=1234 bash script");
  EXPECT_THAT(result.out, HasSubstr("--until 1234"));
}

}  // namespace
}  // namespace fettle
