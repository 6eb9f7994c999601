// SPDX-License-Identifier: Apache-2.0
// Figures of how far verdicts can be trusted, on one device and within a given time:
//
//   layernorm  how long full verification and measurement of one candidate take
//   source     how long a candidate of layernorm takes from its source to its verdict in a search,
//              one at a time: new, and compiled before
//   gain       how often a kernel with 3 % less work is accepted, for launches of 20 us and more
//   aa         how often the baseline in disguise is accepted; jobs of 50 candidates, as the server
//              plays them
//
//     bench/run trust_figures --device cuda:0 --minutes 8 [--add FILE.json] [--out FILE.json]
//
// Run in the repository's root. --add counts an earlier run's gain and aa figures in. Exit code 1:
// a false win.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/format.h"
#include "cli/local.h"
#include "cli/task_folder.h"
#include "core/status_macros.h"
#include "judge/accept.h"

namespace fettle {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string device = "cpu", add, out, cache;
  std::vector<std::string> parts = {"layernorm", "gain", "aa"};
  double minutes = 5;
  int threads = 4;
};

constexpr int kJobCandidates = 50;

// y = 2 x behind a chain of WORK steps that never changes y: the chain cannot reach zero, which no
// compiler knows. So WORK scales the time and nothing else.
constexpr char kChainKernel[] = R"(__global__ void chain(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned long long s = __float_as_uint(x[i]) | (1ULL << 40);
#pragma unroll 1
  for (int k = 0; k < WORK; ++k) {
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
  }
  y[i] = s == 0 ? 0.0f : 2.0f * x[i];
}
)";

constexpr char kStreamKernel[] = R"(__global__ void chain(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
)";

constexpr char kReference[] = R"(#include "fettle_reference.h"

extern "C" void twice_ref(fettle_ref* ref) {
  const fettle_tensor& x = fettle_input(ref, "x");
  fettle_result& y = fettle_output(ref, "y");
  for (int64_t i = 0; i < fettle_row_count(y); ++i) y.values[i] = 2 * x.values[fettle_row(y, i)];
}
)";

// `work`: of the baseline; 0: the kernel that streams. `elements`: on a GPU.
TaskFiles MakeTask(std::int64_t work, std::int64_t elements) {
  const std::string yaml = fmt::format(
      R"yaml(format: 1
name: trust_{0}
summary: Twice the input, behind work that changes nothing.
license: Apache-2.0
dims:
  n: {{min: 1, max: 67108864}}
args:
  - x: {{role: in, dtype: f32, shape: [n], fill: {{normal: [0, 1]}}}}
  - y: {{role: out, dtype: f32, shape: [n]}}
  - n: {{role: scalar, dtype: i32, value: n}}
baseline:
  source: kernel.cu
  tunables: {{WORK: [0, 300, 309, 600, 618, 1000, 1030]}}
  values: {{WORK: {0}}}
  launches:
    - {{kernel: chain, grid: ["ceil_div(n, 256)"], block: [256], args: [x, y, n]}}
reference: {{source: reference.cc, function: twice_ref}}
cases:
  timed: [{{for: cpu, n: 2048}}, {{for: gpu, n: {1}}}]
  checked: [{{n: 257}}, {{n: 4096}}]
  held_out: 1
tolerance: {{y: {{exact: values}}}}
work: {{bytes: "8*n"}}
contract: {{deterministic: true}}
)yaml",
      work, elements);
  return {{"task.yaml", yaml},
          {"kernel.cu", work > 0 ? kChainKernel : kStreamKernel},
          {"reference.cc", kReference}};
}

absl::StatusOr<std::shared_ptr<const Task>> Parse(const TaskFiles& files) {
  std::vector<TaskProblem> problems;
  auto task = Task::Parse(files, &problems);
  if (!task.ok()) return absl::InternalError(FormatProblems(problems));
  return *std::move(task);
}

// How a candidate ended, as in a job.
struct Ended {
  bool confirmed = false, won = false;
  double ratio = 0;  // Of the confirmation, else of the search.
  double b_median_ns = 0;
  std::string verdict;  // "WIN", "NO_WIN screened", ...
};

class Figures {
 public:
  Figures(Options options, LocalLab lab, DeviceInfo device)
      : options_(std::move(options)), lab_(std::move(lab)), device_(std::move(device)) {}

  absl::StatusOr<int> Run() {
    begin_ = Clock::now();
    json report = {{"device", device_.model}, {"driver", device_.driver}};
    const json before = ReadBefore();
    fmt::print("{}, driver {}\n", device_.model, device_.driver);
    if (Wanted("layernorm")) {
      FETTLE_ASSIGN_OR_RETURN(report["layernorm"], Layernorm());
    }
    if (Wanted("source")) {
      FETTLE_ASSIGN_OR_RETURN(report["source"], SourceToVerdict());
    }
    if (Wanted("gain")) {
      FETTLE_ASSIGN_OR_RETURN(report["gain"],
                              Gain(Wanted("aa") ? 0.4 : 1.0, MemberOf(before, "gain")));
    } else if (before.contains("gain")) {
      report["gain"] = before["gain"];
    }
    if (Wanted("aa")) {
      FETTLE_ASSIGN_OR_RETURN(report["aa"], Disguised(MemberOf(before, "aa")));
    } else if (before.contains("aa")) {
      report["aa"] = before["aa"];
    }
    fmt::print("{:.0f} s in all\n", Seconds());
    if (!options_.out.empty()) {
      std::ofstream out(options_.out);
      out << report.dump(1) << "\n";
      if (!out) return absl::UnavailableError("write " + options_.out);
    }
    return NumberOf(MemberOf(report, "aa"), "false_wins") > 0 ? 1 : 0;
  }

 private:
  bool Wanted(const std::string& part) const {
    return std::find(options_.parts.begin(), options_.parts.end(), part) != options_.parts.end();
  }
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  double Left() const { return 60 * options_.minutes - Seconds(); }

  json ReadBefore() const {
    if (options_.add.empty()) return json::object();
    std::ifstream in(options_.add);
    json before = json::parse(in, nullptr, /*allow_exceptions=*/false);
    if (!before.is_object() || TextOf(before, "device") != device_.model) {
      fmt::print("{} holds no figures of this device: nothing added\n", options_.add);
      return json::object();
    }
    return before;
  }

  absl::StatusOr<UnitResult> RunUnit(const WorkUnit& unit) {
    absl::StatusOr<UnitResult> result;
    for (int attempt = 0; attempt < 2; ++attempt) {
      result = lab_.runner->Run(unit, *lab_.blobs, {}, {});
      if (!absl::IsUnavailable(result.status())) break;
    }
    return result;
  }

  absl::StatusOr<WorkUnit> UnitOf(UnitKind kind, const Task& task) {
    FETTLE_ASSIGN_OR_RETURN(WorkUnit unit,
                            BaselineUnit(kind, task, device_.target.name, *lab_.blobs));
    unit.id = fmt::format("trust-{}", next_id_++);
    unit.time_cap_s = 10;
    return unit;
  }

  // A candidate as the server takes it: evaluation, and, of a contender, confirmation number `k` of
  // its job. `k` counts those that were measured.
  absl::StatusOr<Ended> Judge(const Task& task, const KernelUnderTest& candidate,
                              std::uint64_t seed, std::atomic<int>& confirmations) {
    const judge::AcceptanceRule rule;
    FETTLE_ASSIGN_OR_RETURN(WorkUnit unit, UnitOf(UnitKind::kEvaluate, task));
    unit.candidate = candidate;
    unit.seed = seed;
    FETTLE_ASSIGN_OR_RETURN(UnitResult result, RunUnit(unit));
    Ended ended;
    if (result.verdict) return Note(ended, *result.verdict);
    if (!result.measurement) return absl::InternalError("no measurement and no verdict");
    Note(ended, *result.measurement);
    if (!judge::IsContender(*result.measurement, 1, rule)) {
      ended.verdict = "NO_WIN not a contender";
      return ended;
    }
    FETTLE_ASSIGN_OR_RETURN(unit, UnitOf(UnitKind::kConfirm, task));
    unit.candidate = candidate;
    FETTLE_ASSIGN_OR_RETURN(result, RunUnit(unit));
    ended.confirmed = true;
    const int k = result.measurement ? ++confirmations : 1;
    if (result.verdict) return Note(ended, *result.verdict);
    if (!result.measurement) return absl::InternalError("no measurement and no verdict");
    Note(ended, *result.measurement);
    return Note(ended, judge::DecideConfirmation(*result.measurement, k, 0, rule).record);
  }

  static Ended Note(Ended& ended, const VerdictRecord& record) {
    ended.won = record.verdict == Verdict::kWin;
    ended.verdict = std::string(VerdictName(record.verdict)) + " " + record.reason_code;
    return ended;
  }
  static void Note(Ended& ended, const Measurement& measurement) {
    ended.ratio = measurement.cases.front().ratio;
    ended.b_median_ns = measurement.cases.front().b_median_ns;
  }

  // One candidate at a time on the device, several being compiled: calls `one(i)` until `seconds`
  // have passed.
  absl::Status During(double seconds, const std::function<absl::Status(int)>& one) {
    const double end = Seconds() + seconds;
    std::atomic<int> next = 0;
    std::mutex mutex;
    absl::Status problem;
    const auto work = [&] {
      while (Seconds() < end) {
        const absl::Status status = one(next++);
        const std::lock_guard lock(mutex);
        problem.Update(status);
        if (!problem.ok()) return;
      }
    };
    std::vector<std::jthread> threads;
    for (int i = 0; i < options_.threads; ++i) threads.emplace_back(work);
    threads.clear();
    return problem;
  }

  absl::StatusOr<json> Layernorm();
  absl::StatusOr<json> SourceToVerdict();
  absl::StatusOr<json> Gain(double share, const json& before);
  absl::StatusOr<json> Disguised(const json& before);

  const Options options_;
  LocalLab lab_;
  const DeviceInfo device_;
  std::atomic<int> next_id_ = 0;
  Clock::time_point begin_;
};

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Milliseconds of a unit's stages by what they did: "verify", "time", "compile", "reference",
// "wait", "prepare".
std::map<std::string, double> Stages(const UnitResult& result) {
  const std::pair<const char*, const char*> kinds[] = {
      {"verifying", "verify"},    {"timing", "time"},  {"compiling", "compile"},
      {"screening", "screen"},
      {"computing", "reference"}, {"waiting", "wait"}, {"preparing", "prepare"},
  };
  std::map<std::string, double> stages;
  for (const json& stage : MemberOf(result.environment, "stages")) {
    const std::string doing = TextOf(stage, "doing");
    for (const auto& [start, kind] : kinds) {
      if (doing.starts_with(start)) stages[kind] += NumberOf(stage, "ms");
    }
  }
  return stages;
}

// tasks/layernorm, timed on its f32 case alone.
absl::StatusOr<std::shared_ptr<const Task>> LayernormTask() {
  FETTLE_ASSIGN_OR_RETURN(TaskFiles files, ReadTaskFolder("tasks/layernorm"));
  std::string yaml, line;
  for (std::istringstream in(files["task.yaml"]); std::getline(in, line);) {
    const bool other = line.find("for: ") != line.npos && line.find("T: f16") != line.npos;
    if (!other) yaml += line + "\n";
  }
  files["task.yaml"] = yaml;
  return Parse(files);
}

// One at a time, as a search takes them. The first candidate pays for inputs, reference and runners
// and does not count.
absl::StatusOr<json> Figures::SourceToVerdict() {
  FETTLE_ASSIGN_OR_RETURN(const auto task, LayernormTask());
  std::vector<TunableValues> all;
  for (const std::int64_t block : {256, 64, 128, 512, 1024}) {
    for (const std::int64_t vec : {4, 1, 2, 8}) {
      all.push_back({{"BLOCK", block}, {"ROWS", 1}, {"VEC", vec}});
    }
  }
  const std::uint64_t seed = DrawSeed();
  const std::string mark = fmt::format("// {}\n", seed);  // Compiled by nobody before.
  json report = json::object();
  fmt::print("\nlayernorm from source to verdict, one candidate at a time\n");
  for (const bool compiled_before : {false, true}) {
    std::vector<double> whole, measured;
    std::map<std::string, std::vector<double>> stages;
    for (std::size_t i = 0; i < all.size(); ++i) {
      FETTLE_ASSIGN_OR_RETURN(WorkUnit unit, UnitOf(UnitKind::kEvaluate, *task));
      unit.candidate.kernel.source += mark;
      unit.candidate.values = all[i];
      unit.candidate.digest =
          CandidateDigest(task->digest(), unit.target, unit.candidate.kernel, all[i]);
      unit.seed = seed;
      FETTLE_ASSIGN_OR_RETURN(const UnitResult result, RunUnit(unit));
      if (i == 0) continue;
      for (const BuildRecord& build : result.builds) {
        if (build.cache_hit != compiled_before) {
          return absl::InternalError("a build came from where it should not");
        }
      }
      const double ms = static_cast<double>(result.wall_ns) / 1e6;
      whole.push_back(ms);
      if (result.measurement) measured.push_back(ms);
      for (const auto& [stage, of_stage] : Stages(result)) stages[stage].push_back(of_stage);
    }
    const std::string name = compiled_before ? "compiled before" : "new";
    fmt::print(
        "{:<16} median {:.0f} ms of {} (those measured in full: {:.0f} ms of {}; target: {})\n",
        name, Median(whole), whole.size(), Median(measured), measured.size(),
        compiled_before ? "below 250" : "below 500");
    for (const auto& [stage, of_stage] : stages) {
      fmt::print("    {:<10} {:.0f} ms\n", stage, Median(of_stage));
    }
    report[name] = {{"median_ms", Median(whole)}, {"measured_median_ms", Median(measured)}};
  }
  return report;
}

// One candidate alone on the device: every checked case and the large one verified, and measured as
// in a search. The first use of a job's seed pays for inputs and reference on the host.
absl::StatusOr<json> Figures::Layernorm() {
  FETTLE_ASSIGN_OR_RETURN(const auto task, LayernormTask());
  const std::vector<TunableValues> all = {
      {{"BLOCK", 128}, {"ROWS", 1}, {"VEC", 4}}, {{"BLOCK", 512}, {"ROWS", 1}, {"VEC", 4}},
      {{"BLOCK", 256}, {"ROWS", 2}, {"VEC", 4}}, {{"BLOCK", 256}, {"ROWS", 1}, {"VEC", 2}},
      {{"BLOCK", 512}, {"ROWS", 1}, {"VEC", 2}}, {{"BLOCK", 128}, {"ROWS", 2}, {"VEC", 4}}};
  const std::uint64_t seed = DrawSeed();
  json rows = json::array();
  std::vector<double> verify, time, together;
  fmt::print(
      "\nlayernorm, one candidate at a time, milliseconds\n{:<28} {:>8} {:>8} {:>8} {:>10} "
      "{:>8} {:>9}  {}\n",
      "", "verify", "measure", "both", "reference", "prepare", "compile", "verdict");
  for (const TunableValues& values : all) {
    FETTLE_ASSIGN_OR_RETURN(WorkUnit unit, UnitOf(UnitKind::kEvaluate, *task));
    unit.candidate.values = values;
    unit.candidate.digest =
        CandidateDigest(task->digest(), unit.target, unit.candidate.kernel, values);
    unit.seed = seed;
    unit.screen = false;
    FETTLE_ASSIGN_OR_RETURN(const UnitResult result, RunUnit(unit));
    std::map<std::string, double> ms = Stages(result);
    const std::string verdict = result.verdict ? std::string(VerdictName(result.verdict->verdict)) +
                                                     " " + result.verdict->reason_code
                                               : "right";
    std::string name;
    for (const auto& [key, value] : values) name += fmt::format("{}={} ", key, value);
    fmt::print("{:<28} {:>8.0f} {:>8.0f} {:>8.0f} {:>10.0f} {:>8.0f} {:>9.0f}  {}\n", name,
               ms["verify"], ms["time"], ms["verify"] + ms["time"], ms["reference"], ms["prepare"],
               ms["compile"], verdict);
    std::fflush(stdout);
    rows.push_back({{"values", values}, {"ms", ms}, {"verdict", verdict}});
    if (rows.size() > 1 && !result.verdict) {
      verify.push_back(ms["verify"]);
      time.push_back(ms["time"]);
      together.push_back(ms["verify"] + ms["time"]);
    }
  }
  fmt::print(
      "median after the first: verify {:.0f} ms, measure {:.0f} ms, together {:.0f} ms "
      "(target: below 1,000)\n",
      Median(verify), Median(time), Median(together));
  return json{{"candidates", rows}, {"together_ms", Median(together)}};
}

absl::StatusOr<json> Figures::Gain(double share, const json& before) {
  struct Kind {
    std::int64_t work, elements;  // Of the faster side; the other does 3 % more.
    int trials = 0, won = 0;
    std::vector<double> ratios, times;
    std::map<std::string, int> verdicts;
  };
  // A quarter, a half and all of what an H200 runs at once; about 20, 60 and 200 us there.
  std::vector<Kind> kinds = {{.work = 300, .elements = 132 * 1024},
                             {.work = 600, .elements = 132 * 1024},
                             {.work = 1000, .elements = 132 * 2048}};
  std::vector<std::shared_ptr<const Task>> tasks;
  for (const Kind& kind : kinds) {
    FETTLE_ASSIGN_OR_RETURN(auto task, Parse(MakeTask(kind.work * 103 / 100, kind.elements)));
    tasks.push_back(std::move(task));
  }
  std::mutex mutex;
  const absl::Status ran = During(share * std::max(Left(), 1.0), [&](int i) -> absl::Status {
    const std::size_t which = static_cast<std::size_t>(i) % kinds.size();
    const Task& task = *tasks[which];
    KernelUnderTest candidate;
    candidate.kernel = task.baseline();
    candidate.kernel.source += fmt::format("// Trial {}.\n", i);
    candidate.values = {{"WORK", kinds[which].work}};
    candidate.digest =
        CandidateDigest(task.digest(), device_.target.name, candidate.kernel, candidate.values);
    std::atomic<int> confirmations = 0;  // Each trial is its job's first contender.
    FETTLE_ASSIGN_OR_RETURN(
        const Ended ended,
        Judge(task, candidate, 100 + static_cast<std::uint64_t>(which), confirmations));
    const std::lock_guard lock(mutex);
    Kind& kind = kinds[which];
    ++kind.trials;
    kind.won += ended.won;
    ++kind.verdicts[ended.verdict];
    if (ended.ratio > 0) kind.ratios.push_back(ended.ratio);
    if (ended.b_median_ns > 0) kind.times.push_back(ended.b_median_ns);
    return absl::OkStatus();
  });
  FETTLE_RETURN_IF_ERROR(ran);
  json list = json::array();
  fmt::print("\n3 % less work (added up over runs)\n{:<12} {:>9} {:>12} {:>8} {:>9} {:>8}\n", "",
             "us", "ratio seen", "trials", "accepted", "share");
  int trials = 0, won = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    Kind& kind = kinds[i];
    for (const json& old : before) {
      if (NumberOf(old, "work") != static_cast<double>(kind.work)) continue;
      kind.trials += static_cast<int>(NumberOf(old, "trials"));
      kind.won += static_cast<int>(NumberOf(old, "accepted"));
      for (const auto& [verdict, times] : MemberOf(old, "verdicts").items()) {
        if (times.is_number_integer()) kind.verdicts[verdict] += times.get<int>();
      }
    }
    fmt::print("WORK={:<7} {:>9.1f} {:>12.4f} {:>8} {:>9} {:>6.1f} %\n", kind.work,
               Median(kind.times) / 1000, Median(kind.ratios), kind.trials, kind.won,
               kind.trials > 0 ? 100.0 * kind.won / kind.trials : 0.0);
    for (const auto& [verdict, times] : kind.verdicts) {
      if (!verdict.starts_with("WIN")) fmt::print("    {} x {}\n", times, verdict);
    }
    list.push_back({{"work", kind.work},
                    {"median_ns", Median(kind.times)},
                    {"ratio", Median(kind.ratios)},
                    {"trials", kind.trials},
                    {"accepted", kind.won},
                    {"verdicts", kind.verdicts}});
    trials += kind.trials;
    won += kind.won;
  }
  fmt::print("in all {} of {} (target: at least 95 %)\n", won, trials);
  return list;
}

// Jobs of candidates that are the baseline with another comment and other names. Their seeds and
// confirmations are counted job by job.
absl::StatusOr<json> Figures::Disguised(const json& before) {
  std::vector<std::shared_ptr<const Task>> tasks;
  for (const auto& [work, elements] :
       {std::pair<std::int64_t, std::int64_t>{0, 1 << 23}, {0, 1 << 25}, {300, 132 * 1024}}) {
    FETTLE_ASSIGN_OR_RETURN(auto task, Parse(MakeTask(work, elements)));
    tasks.push_back(std::move(task));
  }
  struct Job {
    std::uint64_t seed = DrawSeed();
    std::atomic<int> confirmations = 0;
    std::atomic<bool> won = false;
  };
  std::mutex mutex;
  std::map<int, std::unique_ptr<Job>> jobs;  // Guarded by mutex.
  int candidates = 0, confirmed = 0, false_wins = 0;
  std::map<std::string, int> verdicts;
  std::vector<double> ratios;
  const absl::Status ran = During(std::max(Left(), 1.0), [&](int i) -> absl::Status {
    Job* job = nullptr;
    {
      const std::lock_guard lock(mutex);
      std::unique_ptr<Job>& slot = jobs[i / kJobCandidates];
      if (slot == nullptr) slot = std::make_unique<Job>();
      job = slot.get();
    }
    const Task& task = *tasks[static_cast<std::size_t>(i / kJobCandidates) % tasks.size()];
    KernelUnderTest candidate;
    candidate.kernel = task.baseline();
    std::string& source = candidate.kernel.source;
    source = fmt::format("// Candidate {}.\n#define i at_{}\n{}", i, i, source);
    candidate.values = candidate.kernel.values;
    candidate.digest =
        CandidateDigest(task.digest(), device_.target.name, candidate.kernel, candidate.values);
    FETTLE_ASSIGN_OR_RETURN(const Ended ended,
                            Judge(task, candidate, job->seed, job->confirmations));
    const std::lock_guard lock(mutex);
    ++candidates;
    confirmed += ended.confirmed;
    false_wins += ended.won;
    if (ended.won) job->won = true;
    ++verdicts[ended.verdict];
    if (ended.ratio > 0) ratios.push_back(ended.ratio);
    return absl::OkStatus();
  });
  FETTLE_RETURN_IF_ERROR(ran);
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&ratios](double share) {
    if (ratios.empty()) return 0.0;
    return ratios[static_cast<std::size_t>(share * static_cast<double>(ratios.size() - 1))];
  };
  const int this_run = candidates;
  const auto jobs_now = static_cast<int>(jobs.size());
  const auto old = [&before](const char* key) { return static_cast<int>(NumberOf(before, key)); };
  candidates += old("candidates");
  confirmed += old("confirmations");
  false_wins += old("false_wins");
  fmt::print("\nA/A: {} candidates in {} jobs in this run, 95 % of ratios in {:.4f} to {:.4f}\n",
             this_run, jobs_now, at(0.025), at(0.975));
  for (const auto& [verdict, times] : verdicts) fmt::print("    {} x {}\n", times, verdict);
  fmt::print(
      "added up over runs: {} candidates, {} confirmations, {} false wins (target: 0 in "
      "3,000)\n",
      candidates, confirmed, false_wins);
  return json{{"candidates", candidates},   {"jobs", jobs_now + old("jobs")},
              {"confirmations", confirmed}, {"false_wins", false_wins},
              {"ratio_low", at(0.025)},     {"ratio_high", at(0.975)},
              {"verdicts", verdicts}};
}

absl::StatusOr<int> Main(Options options) {
  if (options.cache.empty()) {
    options.cache = (std::filesystem::temp_directory_path() / "fettle-trust").string();
  }
  LocalFlags flags;
  flags.cache = options.cache;
  flags.device = options.device;
  FETTLE_ASSIGN_OR_RETURN(LocalLab lab, LocalLab::Open(flags));
  DeviceInfo device = lab.runner->devices().front();
  return Figures(std::move(options), std::move(lab), std::move(device)).Run();
}

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) {
  CLI::App app{"How far verdicts can be trusted on one device"};
  fettle::Options options;
  app.add_option("--device", options.device, "cpu, cuda:N or hip:N");
  app.add_option("--minutes", options.minutes, "for everything together")
      ->check(CLI::Range(0.1, 600.0));
  app.add_option("--parts", options.parts, "layernorm, gain, aa");
  app.add_option("--threads", options.threads, "candidates under way")->check(CLI::Range(1, 64));
  app.add_option("--cache", options.cache, "compile cache");
  app.add_option("--add", options.add, "count in what an earlier run wrote here");
  app.add_option("--out", options.out, "write JSON to this file");
  CLI11_PARSE(app, argc, argv);
  const absl::StatusOr<int> code = fettle::Main(std::move(options));
  if (code.ok()) return *code;
  fmt::print(stderr, "trust_figures: {}\n", std::string(code.status().message()));
  return 3;
}
