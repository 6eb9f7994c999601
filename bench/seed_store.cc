// SPDX-License-Identifier: Apache-2.0
// Fills a data folder with made-up jobs, candidates and variants, for the dashboard's tests and
// figures. Everything in it says "seeded": it measures nothing.

#include <cmath>
#include <filesystem>
#include <random>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/task_folder.h"
#include "core/clock.h"
#include "core/status_macros.h"
#include "fettle/v1/optimizer.pb.h"
#include "server/ids.h"
#include "server/job_events.h"
#include "server/provenance.h"
#include "store/agent_call_store.h"
#include "store/candidate_store.h"
#include "store/device_store.h"
#include "store/job_store.h"
#include "store/store.h"
#include "store/variant_store.h"

namespace fettle {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr const char* kModels[] = {"Seeded GPU", "Seeded AMD GPU"};
constexpr int kBlocks = 12;
constexpr int kCandidatesPerTransaction = 2'000;

// Everything that a page might mistake for its own markup, address, or layout.
constexpr char kHostile[] =
    "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`><svg onload=alert(1)> "
    "javascript:alert(1) {{7*7}} ${7*7} </title></textarea> \xE2\x80\xAE"
    "desrever\xE2\x80\xAC\n=cmd|' /C calc'!A0";

struct Options {
  std::string data, tasks;
  int jobs = 40;
  int candidates = 2'000;
  int variants = 120;
  bool hostile = false;
};

class Seeder {
 public:
  Seeder(Store& store, Options options) : store_(store), options_(std::move(options)) {}

  absl::Status Run() {
    FETTLE_RETURN_IF_ERROR(ReadTasks());
    FETTLE_RETURN_IF_ERROR(Devices());
    const int per_job = std::max(1, options_.candidates / options_.jobs);
    const int wins = std::max(1, options_.variants / options_.jobs);
    now_ = SystemClock().NowNs() - options_.jobs * 3'600 * kSecondNs;
    for (int i = 0; i < options_.jobs; ++i) {
      // One job is as large as half of all, as a long search is.
      const bool large = i == 0 && options_.candidates > 10'000;
      FETTLE_RETURN_IF_ERROR(Job(i,
                                 large    ? options_.candidates / 2
                                 : large_ ? per_job / 2
                                          : per_job,
                                 wins));
      large_ = large_ || large;
    }
    return absl::OkStatus();
  }

 private:
  struct SeedTask {
    std::shared_ptr<const Task> task;
    std::string name, blob;
  };

  std::string Text(std::string_view plain) const {
    return options_.hostile ? fmt::format("{} {}", plain, kHostile) : std::string(plain);
  }
  double Draw() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  absl::Status ReadTasks() {
    for (const auto& entry : std::filesystem::directory_iterator(options_.tasks)) {
      absl::StatusOr<TaskFiles> files = ReadTaskFolder(entry.path().string());
      if (!files.ok()) continue;
      const std::string blob = PackTaskFiles(*files);
      std::vector<TaskProblem> problems;
      absl::StatusOr<std::shared_ptr<const Task>> task = Task::Parse(*std::move(files), &problems);
      if (!task.ok()) continue;
      SeedTask seed{*std::move(task), "", ""};
      seed.name = Text(seed.task->name());
      FETTLE_ASSIGN_OR_RETURN(seed.blob, store_.blobs().Put(blob));
      tasks_.push_back(std::move(seed));
    }
    if (tasks_.empty()) return absl::NotFoundError("no task in " + options_.tasks);
    std::sort(tasks_.begin(), tasks_.end(),
              [](const SeedTask& a, const SeedTask& b) { return a.name < b.name; });
    return store_.Write([&](Connection& db) -> absl::Status {
      for (const SeedTask& seed : tasks_) {
        FETTLE_RETURN_IF_ERROR(
            InsertTask(db, {seed.task->digest(), seed.name, seed.blob, SystemClock().NowNs()}));
      }
      return absl::OkStatus();
    });
  }

  // What workers would have reported, one device of each of the two models.
  absl::Status Devices() {
    DeviceReportRow nvidia;
    nvidia.host = "seeded";
    nvidia.device_id = "cuda:0";
    nvidia.model = Text(kModels[0]);
    nvidia.target = "sm_90a";
    nvidia.driver = Text("seeded");
    nvidia.worker_id = "seeded";
    nvidia.health = "ok";
    nvidia.bytes_per_s = 4.0e12;
    nvidia.cached_bytes_per_s = 9.1e12;
    nvidia.flops_per_s = 9.6e14;
    nvidia.flops8_per_s = 1.92e15;
    nvidia.aa_json = Json{{"candidates", 40},     {"confirmations", 3},
                          {"false_wins", 0},      {"ratio_low", 0.991},
                          {"ratio_high", 1.008},  {"spread_median", 0.0014},
                          {"spread_p95", 0.0061}, {"measured_ns", SystemClock().NowNs()}}
                         .dump();
    nvidia.reported_ns = SystemClock().NowNs();
    DeviceReportRow amd = nvidia;
    amd.device_id = "hip:0";
    amd.model = Text(kModels[1]);
    amd.target = "gfx950";
    amd.health = "suspect";
    amd.aa_json.clear();
    return store_.Write([&](Connection& db) -> absl::Status {
      FETTLE_RETURN_IF_ERROR(PutDeviceReport(db, nvidia));
      return PutDeviceReport(db, amd);
    });
  }

  // Two rounds of a conversation that nobody had.
  absl::Status Conversation(Connection& db, JobRow& job) {
    const std::string said = Text("Seeded: no model was asked.");
    for (const char* kind :
         {"model/plan", "model/write", "try/compile", "model/plan", "model/write"}) {
      AgentCallRow call;
      call.job_id = job.id;
      call.kind = kind;
      call.model = Text("seeded");
      call.request_digest = std::string(64, 'f');
      call.request =
          Json{{"system", said}, {"messages", {{{"role", "user"}, {"text", said}}}}}.dump();
      call.reply =
          Json{{"text", said}, {"calls", {{{"name", said}, {"input", {{said, said}}}}}}}.dump();
      call.state = call_state::kAnswered;
      call.created_ns = now_;
      FETTLE_RETURN_IF_ERROR(InsertAgentCall(db, call));
      const bool model = std::string_view(kind).starts_with("model");
      call.tokens = model ? 8'200 : 0;
      call.usd = model ? 0.041 : 0;
      call.device_ms = model ? 0 : 120;
      call.ended_ns = now_ + 4 * kSecondNs;
      FETTLE_RETURN_IF_ERROR(UpdateAgentCall(db, call));
      job.spent.tokens += call.tokens;
      job.spent.usd += call.usd;
    }
    return absl::OkStatus();
  }

  TunableValues DrawValues(const KernelSpec& kernel) {
    TunableValues values = kernel.values;
    for (const Tunable& tunable : kernel.tunables) {
      if (tunable.values.empty()) continue;
      values[tunable.name] = tunable.values[random_() % tunable.values.size()];
    }
    return values;
  }

  Measurement Measured(double ratio, int cases, double base_ns) {
    Measurement measurement;
    measurement.method = "seeded: nothing was measured";
    measurement.device = {{"model", Text("Seeded device")}, {"driver", "seeded"}};
    for (int i = 0; i < cases; ++i) {
      CaseMeasurement one;
      one.case_label = fmt::format("timed/{}", i);
      one.a_median_ns = base_ns * (i + 1);
      one.b_median_ns = one.a_median_ns / ratio;
      one.ratio = ratio * (1 + 0.02 * (Draw() - 0.5));
      one.ratio_low = one.ratio * 0.985;
      one.ratio_high = one.ratio * 1.015;
      one.aa_spread = 0.001 + 0.003 * Draw();
      one.roofline_fraction = std::min(0.97, 0.22 * ratio * (0.9 + 0.2 * Draw()));
      one.floor_ns = one.b_median_ns * one.roofline_fraction;
      one.bytes_per_s = 4.0e12 * one.roofline_fraction;
      one.flops_per_s = one.bytes_per_s * (0.3 + 6 * i + 0.2 * Draw());
      for (int b = 0; b < kBlocks; ++b) {
        TimingBlock block;
        for (int s = 0; s < 5; ++s) {
          block.a_ns.push_back(one.a_median_ns * (1 + 0.01 * (Draw() - 0.5)));
          block.b_ns.push_back(one.b_median_ns * (1 + 0.01 * (Draw() - 0.5)));
        }
        block.clock_mhz = 1'700 + 60 * Draw();
        block.power_w = 480 + 60 * Draw();
        block.temperature_c = 55 + 5 * Draw();
        one.blocks.push_back(std::move(block));
        one.block_log_ratios.push_back(std::log(one.ratio));
      }
      measurement.cases.push_back(std::move(one));
    }
    return measurement;
  }

  UnitResult Result(const KernelUnderTest& kernel, double ratio) {
    UnitResult result;
    BuildRecord build;
    build.key = "seeded";
    build.code_object = std::string(64, 'c');
    build.entries = {Text("kernel")};
    build.compiler = Text("seeded compiler");
    build.elapsed_ns = 180'000'000;
    build.log = options_.hostile ? kHostile : "";
    build.diagnostics = Json::array();
    if (options_.hostile) {
      build.diagnostics.push_back({{"file", kHostile},
                                   {"line", 3},
                                   {"column", 1},
                                   {"severity", "warning"},
                                   {"text", kHostile}});
    }
    build.facts = {{"format", "seeded"},
                   {"arch", "sm_90a"},
                   {"kernels",
                    {{{"name", Text("kernel")},
                      {"registers", 24 + static_cast<int>(40 * Draw())},
                      {"shared_bytes", 1024 * static_cast<int>(32 * Draw())},
                      {"local_bytes", 0},
                      {"occupancy",
                       {{"waves", 8 + static_cast<int>(8 * Draw())},
                        {"max_waves", 16},
                        {"limit", "registers"}}},
                      {"instructions", {{"global loads of 16 bytes", 12}, {"barriers", 2}}}}}}};
    result.builds.push_back(std::move(build));
    VerificationReport report;
    report.passed = true;
    report.check_mode = "not_run: seeded";
    report.sanitizers = {{"memcheck", "passed"},
                         {"racecheck", "passed: " + Text("seeded")},
                         {"initcheck", "not_run: " + Text("seeded")},
                         {"synccheck", "passed"}};
    for (int i = 0; i < 3; ++i) {
      CaseReport one;
      one.case_label = i < 2 ? fmt::format("timed/{}", i) : "checked/0";
      one.describe = Text(fmt::format("rows={} cols=4096 T=f16", 1 << (10 + i)));
      one.passed = true;
      one.checks = {"poison_a", "poison_b", "guards", "inputs", "repeat"};
      OutputErrors errors;
      errors.output = "y";
      errors.worst = 0.3 * Draw();
      errors.rms = 1e-4 * Draw();
      errors.reference_rms = 1;
      errors.compared = 1 << 20;
      one.outputs.push_back(errors);
      report.cases.push_back(std::move(one));
    }
    result.verification = std::move(report);
    result.measurement = Measured(ratio, 2, 40'000 * (1 + Draw()));
    result.environment = {
        {"host", Text("seeded")}, {"compiler", "seeded compiler"}, {"driver", "seeded"}};
    result.compile_ns = 180'000'000;
    result.device_ns = 90'000'000;
    result.wall_ns = 400'000'000;
    static_cast<void>(kernel);
    return result;
  }

  absl::Status Evaluate(Connection& db, const JobRow& job, const CandidateRow& row,
                        const UnitResult& result, const char* kind) {
    EvaluationRow evaluation;
    evaluation.unit_id = fmt::format("{}.{}.{}", row.job_id, row.ordinal, kind);
    evaluation.job_id = row.job_id;
    evaluation.ordinal = row.ordinal;
    evaluation.kind = kind;
    evaluation.verification_passed = true;
    evaluation.device_model = job.device_model;
    evaluation.host = "seeded";
    evaluation.driver = "seeded";
    evaluation.compiler = Text("seeded compiler");
    evaluation.fettle_version = "seeded";
    evaluation.stored_ns = row.judged_ns;
    evaluation.result_json = ToJson(result).dump();
    for (const CaseMeasurement& from : result.measurement->cases) {
      MeasurementRow to;
      to.against = "denominator";
      to.case_label = from.case_label;
      to.a_median_ns = from.a_median_ns;
      to.b_median_ns = from.b_median_ns;
      to.ratio = from.ratio;
      to.ratio_low = from.ratio_low;
      to.ratio_high = from.ratio_high;
      to.aa_spread = from.aa_spread;
      to.bytes_per_s = from.bytes_per_s;
      to.flops_per_s = from.flops_per_s;
      to.floor_ns = from.floor_ns;
      to.roofline_fraction = from.roofline_fraction;
      to.blocks = kBlocks;
      evaluation.measurements.push_back(std::move(to));
    }
    return InsertEvaluation(db, evaluation);
  }

  absl::Status Event(Connection& db, JobRow& job, v1::JobEvent event, bool terminal = false) {
    return AppendEvent(db, job, std::move(event), now_, terminal);
  }

  absl::Status Job(int index, int candidates, int wins) {
    // Two jobs a task, so that tasks have variants on both targets.
    const SeedTask& seed = tasks_[static_cast<std::size_t>(index / 2) % tasks_.size()];
    JobRow job;
    job.id = RandomId("j");
    job.request_digest = std::string(64, '0');
    job.task_digest = seed.task->digest();
    job.target = index % 3 == 2 ? "gfx950" : "sm_90a";
    job.device_model = Text(kModels[index % 3 == 2 ? 1 : 0]);
    job.toolchain = Text("seeded compiler");
    const bool asks = index % 4 == 1;  // A model.
    job.proposer = asks ? "llm" : "tuner";
    job.seed = RandomSeed();
    job.created_ns = job.started_ns = now_;
    job.state = job_state::kRunning;
    job.stage = job_stage::kSearch;
    job.budget.candidates = candidates;
    job.budget.wall_ms = 3'600'000;
    if (asks) job.budget.tokens = 100'000;
    if (asks) job.budget.usd = 0.5;
    job.space_size = "1440";
    KernelUnderTest denominator;
    denominator.kernel = seed.task->baseline();
    denominator.values = denominator.kernel.values;
    denominator.digest =
        CandidateDigest(job.task_digest, job.target, denominator.kernel, denominator.values);
    const std::string kernel_json = ToJson(denominator.kernel).dump();
    const std::string kernel_digest = fmt::format("{:064x}", 1'000 + index);
    const absl::Status begun = store_.Write([&](Connection& db) -> absl::Status {
      FETTLE_RETURN_IF_ERROR(InsertJob(db, job));
      FETTLE_RETURN_IF_ERROR(InsertKernel(db, {kernel_digest, std::string(64, 'd'), kernel_json}));
      FETTLE_RETURN_IF_ERROR(Event(db, job, StageEvent("search", Text("seeded"))));
      if (asks) FETTLE_RETURN_IF_ERROR(Conversation(db, job));
      FETTLE_RETURN_IF_ERROR(
          Event(db, job, NoteEvent(options_.hostile ? kHostile : "seeded", Text("seeded"))));
      return UpdateJob(db, job);
    });
    FETTLE_RETURN_IF_ERROR(begun);
    std::string incumbent;
    last_digests_.clear();
    for (int at = 0; at < candidates; at += kCandidatesPerTransaction) {
      const int end = std::min(candidates, at + kCandidatesPerTransaction);
      const absl::Status stored = store_.Write([&](Connection& db) -> absl::Status {
        for (int i = at; i < end; ++i) {
          const bool win = wins > 0 && (i + 1) * wins / candidates > i * wins / candidates;
          FETTLE_RETURN_IF_ERROR(Candidate(db, job, seed, denominator, kernel_digest, i + 1,
                                           candidates, win, incumbent));
        }
        return UpdateJob(db, job);
      });
      FETTLE_RETURN_IF_ERROR(stored);
    }
    return store_.Write([&](Connection& db) -> absl::Status {
      job.state = index % 7 == 3 ? job_state::kFailed : job_state::kSucceeded;
      job.message =
          Text(index % 7 == 3 ? "five units in a row failed" : "every proposal was tried");
      job.finished_ns = now_;
      job.spent.wall_ms = (now_ - job.started_ns) / 1'000'000;
      FETTLE_RETURN_IF_ERROR(Event(db, job, StateEvent(job), /*terminal=*/true));
      now_ += 60 * kSecondNs;
      return UpdateJob(db, job);
    });
  }

  absl::Status Candidate(Connection& db, JobRow& job, const SeedTask& seed,
                         const KernelUnderTest& denominator, const std::string& kernel_digest,
                         int ordinal, int candidates, bool win, std::string& incumbent) {
    now_ += kSecondNs / 2;
    CandidateRow row;
    row.job_id = job.id;
    row.ordinal = ordinal;
    row.digest = fmt::format("{:016x}{:048x}", random_(), ordinal);
    row.kernel_digest = kernel_digest;
    const TunableValues values = DrawValues(denominator.kernel);
    Json shown(values);
    if (options_.hostile) shown[kHostile] = kHostile;
    row.values_json = shown.dump();
    row.parent = last_digests_.empty() || Draw() < 0.2
                     ? ""
                     : last_digests_[random_() % last_digests_.size()];
    row.proposer = job.proposer;
    row.technique = Text(Draw() < 0.5 ? "crossover" : "neighbour");
    row.rationale = Text("Seeded: no proposer wrote this.");
    row.state = candidate_state::kJudged;
    row.judged_order = ordinal;
    row.created_ns = now_ - kSecondNs;
    row.judged_ns = now_;
    const double progress = static_cast<double>(ordinal) / candidates;
    VerdictRecord verdict;
    verdict.stage = Stage::kMeasure;
    verdict.message = Text("seeded");
    verdict.evidence = options_.hostile ? Json{{kHostile, kHostile}} : Json::object();
    const double kind = Draw();
    if (win) {
      verdict.verdict = Verdict::kWin;
      verdict.stage = Stage::kConfirm;
      verdict.reason_code = "confirmed";
      row.ratio = 1.1 + 1.6 * progress + 0.1 * Draw();
    } else if (kind < 0.06) {
      verdict.verdict = Verdict::kCompileError;
      verdict.stage = Stage::kCompile;
      verdict.reason_code = "compile_rejected";
    } else if (kind < 0.1) {
      verdict.verdict = Verdict::kIncorrect;
      verdict.stage = Stage::kVerify;
      verdict.reason_code = "tolerance";
    } else {
      verdict.verdict = Verdict::kNoWin;
      verdict.reason_code = kind < 0.7 ? "screened" : "not_faster";
      row.ratio = 0.5 + 0.5 * Draw() + progress * (0.4 + 0.5 * Draw());
    }
    if (options_.hostile) verdict.reason_code = kHostile;
    row.verdict = std::string(VerdictName(verdict.verdict));
    row.verdict_json = ToJson(verdict).dump();
    FETTLE_RETURN_IF_ERROR(InsertCandidate(db, row));
    last_digests_.push_back(row.digest);
    if (last_digests_.size() > 6) last_digests_.erase(last_digests_.begin());
    ++job.candidate_count;
    ++job.judged_count;
    ++job.spent.candidates;
    v1::JobEvent event;
    v1::CandidateJudged& judged = *event.mutable_candidate_judged();
    judged.set_candidate_digest(row.digest);
    judged.set_ordinal(ordinal);
    judged.set_values_json(row.values_json);
    judged.set_verdict(row.verdict);
    judged.set_reason_code(verdict.reason_code);
    judged.set_message(verdict.message);
    judged.set_ratio(row.ratio);
    FETTLE_RETURN_IF_ERROR(Event(db, job, std::move(event)));
    if (row.ratio > 0 && (win || ordinal % 4 == 0)) {
      const KernelUnderTest kernel{row.digest, denominator.kernel, values};
      UnitResult result = Result(kernel, row.ratio);
      if (!win) {
        for (CaseMeasurement& one : result.measurement->cases) one.blocks.clear();
        result.builds.clear();
      }
      FETTLE_RETURN_IF_ERROR(Evaluate(db, job, row, result, win ? "confirm" : "evaluate"));
      if (win) {
        FETTLE_RETURN_IF_ERROR(Variant(db, job, seed, row, kernel, denominator, result, incumbent));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Variant(Connection& db, JobRow& job, const SeedTask& seed, const CandidateRow& row,
                       const KernelUnderTest& kernel, const KernelUnderTest& denominator,
                       const UnitResult& result, std::string& incumbent) {
    VariantRow variant;
    variant.id = VariantId(job.id, row.digest);
    variant.job_id = job.id;
    variant.ordinal = row.ordinal;
    variant.candidate_digest = row.digest;
    variant.task_digest = job.task_digest;
    variant.target = job.target;
    variant.device_model = job.device_model;
    variant.toolchain = job.toolchain;
    variant.values_json = row.values_json;
    variant.ratio = variant.ratio_declared = row.ratio;
    variant.ratio_low = row.ratio * 0.985;
    variant.ratio_high = row.ratio * 1.015;
    variant.roofline_fraction = std::min(0.97, 0.22 * row.ratio);
    variant.parent_variant = incumbent;
    variant.accepted_ns = now_;
    UnitRow unit;
    unit.id = UnitId(job.id, row.ordinal, UnitPurpose::kConfirm);
    unit.seed = RandomSeed();
    unit.held_out_seed = RandomSeed();
    ProvenanceInput input;
    input.variant = &variant;
    input.job = &job;
    input.task = seed.task.get();
    input.task_blob = seed.blob;
    input.candidate = &row;
    input.kernel = &kernel;
    input.denominator = &denominator;
    input.confirmation = &result;
    input.confirm_unit = &unit;
    if (!row.parent.empty()) input.parents = {row.parent};
    input.fettle_version = "seeded";
    Json provenance = BuildProvenance(input);
    if (options_.hostile) {
      provenance["kernel"]["source"] =
          fmt::format("// {}\n{}", kHostile, denominator.kernel.source);
      provenance["device"][kHostile] = kHostile;
    }
    variant.provenance_json = provenance.dump();
    FETTLE_RETURN_IF_ERROR(InsertVariant(db, variant));
    if (!incumbent.empty()) {
      FETTLE_RETURN_IF_ERROR(SetVariantStatus(db, incumbent, variant_status::kSuperseded,
                                              Text("replaced by a faster one")));
    }
    v1::JobEvent event;
    v1::VariantAccepted& accepted = *event.mutable_variant_accepted();
    accepted.set_variant_id(variant.id);
    accepted.set_candidate_digest(row.digest);
    accepted.set_ratio(row.ratio);
    accepted.set_ratio_low(variant.ratio_low);
    accepted.set_ratio_high(variant.ratio_high);
    accepted.set_values_json(row.values_json);
    FETTLE_RETURN_IF_ERROR(Event(db, job, std::move(event)));
    job.best_variant = variant.id;
    job.best_ratio_declared = row.ratio;
    job.incumbent_ordinal = row.ordinal;
    job.incumbent_ratio = row.ratio;
    incumbent = variant.id;
    return absl::OkStatus();
  }

  Store& store_;
  const Options options_;
  std::vector<SeedTask> tasks_;
  std::vector<std::string> last_digests_;
  std::mt19937_64 random_{7};
  std::int64_t now_ = 0;
  bool large_ = false;
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Fills a data folder with made-up jobs, candidates and variants");
  app.add_option("--data", options.data, "data folder, made where it is missing")->required();
  app.add_option("--tasks", options.tasks, "folder of task folders")->required();
  app.add_option("--jobs", options.jobs, "how many jobs")->check(CLI::Range(1, 100'000));
  app.add_option("--candidates", options.candidates, "over all jobs")
      ->check(CLI::Range(1, 10'000'000));
  app.add_option("--variants", options.variants, "over all jobs")->check(CLI::Range(1, 1'000'000));
  app.add_flag("--hostile", options.hostile, "hostile text in every field that holds text");
  CLI11_PARSE(app, argc, argv);
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open({.data_dir = options.data});
  absl::Status status = store.status();
  if (status.ok()) status = Seeder(**store, options).Run();
  if (status.ok()) return 0;
  fmt::print(stderr, "seed_store: {}\n", StatusText(status));
  return 1;
}

}  // namespace
}  // namespace fettle

int main(int argc, char** argv) { return fettle::Main(argc, argv); }
