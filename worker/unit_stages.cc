// SPDX-License-Identifier: Apache-2.0

// The stages of a unit that run kernels.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <thread>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "judge/accept.h"
#include "profiler/case_pair.h"
#include "profiler/duty.h"
#include "profiler/roofline.h"
#include "verifier/mutation.h"
#include "worker/runner_protocol.h"
#include "worker/unit_job.h"

namespace fettle {
namespace {

using Going = absl::StatusOr<bool>;

constexpr double kMostCalibrationError = 0.05;
constexpr int kCalibrationTries = 3;
constexpr std::size_t kFewestBlocks = 5;
constexpr std::chrono::seconds kHotCap{1};
constexpr std::uint64_t kSingles = 8;  // Timed inputs for one launch each; one of them is judged.

// Seeds of one unit's parts, so that none can be told from another.
std::uint64_t Derive(std::uint64_t seed, std::uint64_t part) {
  std::uint64_t x = seed + 0x9E3779B97F4A7C15ULL * (part + 1);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// Of the inputs of a timed case.
std::uint64_t TimedInputSeed(std::uint64_t seed, int attempt) {
  return Derive(seed, static_cast<std::uint64_t>(attempt) * 2 + 11);
}

}  // namespace

VerifyOptions UnitJob::MakeVerifyOptions() const {
  VerifyOptions options;
  options.seed = unit_.seed;
  options.files = services_.task->files();
  options.judged = &kept_->judged;
  options.sets_on_large = confirms();
  options.progress = services_.progress;
  options.stop = services_.stop;
  return options;
}

std::shared_future<void> UnitJob::StartAhead() {
  const std::lock_guard lock(kept_->mutex);
  if (const auto found = kept_->computed_ahead.find(unit_.seed);
      found != kept_->computed_ahead.end()) {
    computed_ = found->second;
    return {};
  }
  // Confirmations have a seed each.
  if (kept_->computed_ahead.size() > 10'000) kept_->computed_ahead.clear();
  computed_ = std::async(std::launch::async, [this] { EvaluateAhead(); }).share();
  kept_->computed_ahead[unit_.seed] = computed_;
  return computed_;
}

absl::Status UnitJob::AwaitReference() {
  if (!computed_.valid()) return absl::OkStatus();
  Progress("computing the reference");
  while (computed_.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) {
    if (services_.stop.stop_requested()) return absl::CancelledError("the unit was cancelled");
  }
  return absl::OkStatus();
}

void UnitJob::EvaluateAhead() {
  const VerifyOptions options = MakeVerifyOptions();
  std::vector<BoundCase> cases;
  std::vector<bool> supported;
  for (const BoundCase& one : cases_) {
    cases.push_back(one);
    supported.push_back(supported_.at(one.label));
  }
  std::vector<std::pair<std::size_t, InputSpec>> wanted = SpecsAhead(cases, supported, options);
  for (std::size_t i = 0; i < cases.size() && unit_.measure; ++i) {
    if (cases[i].set != CaseSet::kTimed || !supported[i]) continue;
    wanted.emplace_back(i, InputSpec{TimedInputSeed(unit_.seed, /*attempt=*/0)});
  }
  // Small ones are asked for first.
  std::stable_sort(wanted.begin(), wanted.end(), [&cases](const auto& x, const auto& y) {
    return ElementsOf(cases[x.first]) < ElementsOf(cases[y.first]);
  });
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < wanted.size(); i = next++) {
      if (services_.stop.stop_requested()) return;
      // What fails fails again where it is judged.
      reference_->Evaluate(cases[wanted[i].first], wanted[i].second, /*ahead=*/true)
          .status()
          .IgnoreError();
    }
  };
  std::vector<std::future<void>> workers;
  for (int i = 0; i < reference_->processes(); ++i) {
    workers.push_back(std::async(std::launch::async, work));
  }
  for (auto& worker : workers) worker.get();
}

void UnitJob::ComputeNext(const std::vector<BoundCase>& cases, const VerifyOptions& options,
                          std::stop_token stop) {
  std::vector<bool> supported;
  for (const BoundCase& one : cases) supported.push_back(supported_.at(one.label));
  std::int64_t bytes = 0;
  for (const auto& [index, spec] : SpecsAhead(cases, supported, options)) {
    if (stop.stop_requested() || bytes > reference_->memory_cache_bytes() / 2) return;
    const auto expected = reference_->Evaluate(cases[index], spec, /*ahead=*/true);
    if (!expected.ok()) return;  // It fails again where it is judged.
    bytes += (*expected)->bytes();
  }
}

absl::StatusOr<std::vector<CaseUnderTest>> UnitJob::CasesUnderTest(
    const BuildContext& context, BuiltKernel& built, RunnerSession& session,
    const std::vector<BoundCase>& cases, bool with_baseline, Going* going) {
  std::vector<CaseUnderTest> list;
  for (const BoundCase& bound_case : cases) {
    CaseUnderTest one;
    one.bound_case = bound_case;
    one.supported = supported_[bound_case.label];
    if (one.supported) {
      absl::StatusOr<RunnableKernel> kernel = MakeRunnable(context, built, bound_case, session);
      if (!kernel.ok()) {
        *going = DecideFrom(kernel.status(), Stage::kVerify, &bound_case);
        return list;
      }
      one.kernel = *std::move(kernel);
      if (with_baseline) {
        const auto baseline = built_.find(BaselineKernel().digest);
        if (baseline != built_.end() && &baseline->second != &built) {
          FETTLE_ASSIGN_OR_RETURN(one.baseline,
                                  MakeRunnable(context, baseline->second, bound_case, session));
          one.baseline_digest = baseline->first;
        }
      }
    }
    list.push_back(std::move(one));
  }
  return list;
}

// A new task: its checker must reject known-bad outputs, and its baseline must be right on every
// case, held-out ones too, and clean in check mode.
Going UnitJob::Register() {
  Progress("testing the checker");
  Going going = true;
  FETTLE_ASSIGN_OR_RETURN(const std::vector<CaseUnderTest> cases,
                          CasesUnderTest(Context(), built_.at(candidate_.digest), *runner_, cases_,
                                         /*with_baseline=*/false, &going));
  if (!going.ok() || !*going) return going;
  FETTLE_ASSIGN_OR_RETURN(
      const CheckerTest test,
      TestChecker(cases, candidate_.kernel.source, *runner_, *reference_, MakeVerifyOptions()));
  result_.registration = test.registration;
  if (!test.accepted) {
    result_.verdict = test.failure;
    return false;
  }
  FETTLE_ASSIGN_OR_RETURN(const bool right, Verify(std::nullopt));
  if (!right) return false;
  return RunCheckMode();
}

Going UnitJob::Verify(std::optional<CaseSet> only, bool first_look) {
  Progress(first_look ? "looking at first outputs" : "verifying");
  std::vector<BoundCase> chosen = cases_;
  if (only) std::erase_if(chosen, [only](const BoundCase& one) { return one.set != *only; });
  Going going = true;
  FETTLE_ASSIGN_OR_RETURN(const std::vector<CaseUnderTest> cases,
                          CasesUnderTest(Context(), built_.at(candidate_.digest), *runner_, chosen,
                                         /*with_baseline=*/true, &going));
  if (!going.ok() || !*going) return going;
  Verifier verifier(*runner_, *reference_);
  VerifyOptions options = MakeVerifyOptions();
  options.first_look = first_look;
  std::jthread ahead;  // Ends before anything is timed.
  if (on_cpu()) {
    ahead = std::jthread(
        [this, &chosen, &options](std::stop_token stop) { ComputeNext(chosen, options, stop); });
  }
  FETTLE_ASSIGN_OR_RETURN(VerificationReport report, verifier.Verify(cases, options));
  if (ahead.joinable()) {
    ahead.request_stop();
    ahead.join();
  }
  const bool replaces = std::exchange(looked_only_, first_look);
  if (result_.verification && !replaces) {
    VerificationReport before = *std::move(result_.verification);
    std::move(report.cases.begin(), report.cases.end(), std::back_inserter(before.cases));
    std::move(report.warnings.begin(), report.warnings.end(), std::back_inserter(before.warnings));
    report.cases = std::move(before.cases);
    report.warnings = std::move(before.warnings);
  }
  result_.verification = std::move(report);
  if (!result_.verification->passed) {
    result_.verdict = result_.verification->failure;
    return false;
  }
  return true;
}

Going UnitJob::Screen() {
  FETTLE_ASSIGN_OR_RETURN(const bool measured, MeasureAgainst(unit_.denominator, Stage::kScreen,
                                                              /*screen=*/true, &result_.screening));
  if (!measured) return false;
  if (!judge::ScreenedOut(*result_.screening, unit_.incumbent_ratio)) return true;
  return Decide(Verdict::kNoWin, Stage::kScreen, "screened", nullptr,
                fmt::format("clearly slower than the best so far ({:.3f} times the denominator)",
                            unit_.incumbent_ratio));
}

Going UnitJob::Measure() {
  const Stage stage = confirms() ? Stage::kConfirm : Stage::kMeasure;
  FETTLE_ASSIGN_OR_RETURN(
      const bool measured,
      MeasureAgainst(unit_.denominator, stage, /*screen=*/false, &result_.measurement));
  if (!measured || !unit_.incumbent) return measured;
  return MeasureAgainst(*unit_.incumbent, stage, /*screen=*/false, &result_.against_incumbent);
}

Going UnitJob::MeasureAgainst(const KernelUnderTest& other, Stage stage, bool screen,
                              std::optional<Measurement>* into) {
  LaneGate::Ticket ticket;
  if (on_cpu()) {
    ticket = services_.gate->EnterTiming(services_.stop);
    if (!ticket) return absl::CancelledError("the unit was cancelled before it was timed");
  }
  BuiltKernel& denominator = built_.at(other.digest);
  Measurement measurement;
  for (const BoundCase& bound_case : cases_) {
    const bool timed = bound_case.set == CaseSet::kTimed || !unit_.only_case.empty();
    if (!timed || !supported_[bound_case.label]) continue;
    Progress(fmt::format("{} {}", screen ? "screening" : "timing", bound_case.label));
    FETTLE_ASSIGN_OR_RETURN(const bool done,
                            TimeOne(denominator, bound_case, stage, screen, &measurement));
    if (!done) return false;
    if (screen && judge::SlowerOnOneCase(measurement.cases.back())) break;
  }
  measurement.device = ToJson(services_.lane->device());
  *into = std::move(measurement);
  return true;
}

Going UnitJob::TimeOne(BuiltKernel& a, const BoundCase& bound_case, Stage stage, bool screen,
                       Measurement* measurement) {
  TimeRequest request;
  request.bound_case = bound_case;
  FETTLE_ASSIGN_OR_RETURN(request.a, MakeRunnable(Context(), a, bound_case, *runner_));
  absl::StatusOr<RunnableKernel> b =
      MakeRunnable(Context(), built_.at(candidate_.digest), bound_case, *runner_);
  if (!b.ok()) return DecideFrom(b.status(), stage, &bound_case);
  request.b = *std::move(b);
  request.files = FillFiles(bound_case, services_.task->files());
  request.screen_only = screen;
  request.want_outputs = !screen && services_.lane->on_cpu();
  request.keep_outputs = !screen && !services_.lane->on_cpu();
  // A processor has no clocks to raise and no context to set up.
  if (services_.lane->on_cpu()) request.warmup_seconds = 0.05;
  if (!confirms()) {  // Chooses what to confirm, and decides nothing.
    request.max_blocks = request.min_blocks;
    request.min_blocks = judge::AcceptanceRule().min_blocks;
    request.pairs_per_block = 5;
    if (!on_cpu()) {
      request.shortest_sample = std::chrono::microseconds(100);
      request.idle = std::chrono::milliseconds(1);
    }
    // Screening ran just before.
    if (screens() && !services_.lane->on_cpu()) request.warmup_seconds = 0.02;
  }
  request.time_cap = std::chrono::nanoseconds(
      static_cast<std::int64_t>(std::clamp(unit_.time_cap_s, 0.1, 300.0) * (screen ? 0.1e9 : 1e9)));
  // A search may be deceived by a kernel that remembers inputs; what confirms it may not.
  const bool singles = confirms() && RewritesInputs(bound_case);
  TimeObservation seen;
  for (int attempt = 0;; ++attempt) {
    request.input_seed = TimedInputSeed(unit_.seed, attempt);
    request.single_seeds.clear();
    for (std::uint64_t i = 0; singles && i < kSingles; ++i) {
      request.single_seeds.push_back(Derive(request.input_seed, i + 1000));
    }
    // Units may share a seed and so their inputs; no two share an order.
    request.order_seed =
        Derive(unit_.seed ^ std::hash<std::string>{}(fmt::format("{}:{}", unit_.id, unit_.attempt)),
               static_cast<std::uint64_t>(attempt) * 2 + 12);
    absl::StatusOr<TimeObservation> observed = runner_->TimeCase(request);
    if (!observed.ok()) return DecideFrom(observed.status(), stage, &bound_case);
    seen = *std::move(observed);
    if (screen || seen.calibration_error <= kMostCalibrationError) break;
    if (attempt + 1 < kCalibrationTries) continue;
    return Decide(Verdict::kUnmeasurable, stage, "calibration", &bound_case,
                  fmt::format("a spin of known length read {:.1f} % off in {} tries",
                              100 * seen.calibration_error, kCalibrationTries),
                  {{"calibration_error", seen.calibration_error}});
  }
  FETTLE_ASSIGN_OR_RETURN(const bool right, JudgeTimedOutputs(request, seen, stage));
  if (!right) return false;
  CaseMeasurement& timed = seen.measurement;
  if (!screen && timed.block_log_ratios.size() < kFewestBlocks) {
    return Decide(
        Verdict::kUnmeasurable, stage, "too_few_blocks", &bound_case,
        fmt::format("{} usable blocks of {}; {} were discarded", timed.block_log_ratios.size(),
                    timed.blocks.size(), timed.discarded_blocks));
  }
  if (!screen) {
    BoundCase work = bound_case;
    if (work.work_from_reference) {
      InputSpec spec;
      spec.seed = request.input_seed;
      FETTLE_ASSIGN_OR_RETURN(const Reference::WorkFigures figures,
                              reference_->Work(bound_case, spec));
      work.work_bytes = figures.bytes;
      work.work_flops = figures.flops;
    }
    const bool cold = seen.rotated_bytes >= 2 * services_.lane->device().target.cache;
    FETTLE_ASSIGN_OR_RETURN(const bool possible, IsPossible(a, work, cold, timed));
    if (!possible) {
      return Decide(Verdict::kUnmeasurable, stage, "below_floor", &bound_case,
                    fmt::format("{:.0f} ns is faster than the {:.0f} ns that the task's own bytes "
                                "and operations take on this device",
                                timed.b_median_ns, timed.floor_ns),
                    {{"floor_ns", timed.floor_ns}, {"b_median_ns", timed.b_median_ns}});
    }
  }
  measurement->method = fmt::format("interleaved_blocks rotated={} {}{}", seen.rotated_bytes,
                                    services_.lane->on_cpu() ? "cpu_clock" : "device_events",
                                    seen.graphs ? " graphs" : "");
  measurement->calibration_error = std::max(measurement->calibration_error, seen.calibration_error);
  measurement->device_ns += seen.device_ns;
  measurement->cases.push_back(std::move(timed));
  // Beside the denominator; a search has no time for it.
  if (screen || screens() || hot_.contains(bound_case.label)) return true;
  return TimeHot(std::move(request), stage);
}

Going UnitJob::TimeHot(TimeRequest request, Stage stage) {
  request.cold = false;
  request.screen_only = true;  // A few pairs.
  request.want_outputs = request.keep_outputs = false;
  request.single_seeds.clear();
  request.time_cap = std::min<std::chrono::nanoseconds>(request.time_cap, kHotCap);
  const absl::StatusOr<TimeObservation> seen = runner_->TimeCase(request);
  if (!seen.ok()) return DecideFrom(seen.status(), stage, &request.bound_case);
  const CaseMeasurement& timed = seen->measurement;
  hot_[request.bound_case.label] = {{"baseline_ns", timed.a_median_ns},
                                    {"candidate_ns", timed.b_median_ns},
                                    {"ratio", timed.ratio}};
  return true;
}

// Whether `timed` can be; fills its rates and its floor. A floor is only as good as the ceilings
// and the task's `work` behind it. So where a candidate is faster, the ceilings are measured again;
// and where the task's own baseline, which nobody wrote to deceive, is faster too, there is no
// floor.
Going UnitJob::IsPossible(const BuiltKernel& a, const BoundCase& work, bool cold,
                          CaseMeasurement& timed) {
  if (BeatsFloor(work, ceilings_, cold, timed.b_median_ns)) {
    Progress(fmt::format("measuring the ceilings again, {} is faster than they allow",
                         timed.case_label));
    absl::StatusOr<Ceilings> ceilings = services_.lane->RaiseCeilings(services_.stop);
    if (absl::IsCancelled(ceilings.status())) return ceilings.status();
    if (ceilings.ok()) ceilings_ = *ceilings;
  }
  const bool beaten = BeatsFloor(work, ceilings_, cold, timed.b_median_ns);
  const bool by_baseline = a.kernel.kernel.source == services_.task->baseline().source &&
                           BeatsFloor(work, ceilings_, cold, timed.a_median_ns);
  if (beaten && by_baseline) {
    ApplyRoofline(work, Ceilings(), cold, timed);
    if (result_.verification) {
      result_.verification->warnings.push_back(fmt::format(
          "{}: no floor, the task's baseline is faster than it too; `work` is no lower bound, or "
          "the device's ceilings are too low",
          timed.case_label));
    }
    return true;
  }
  ApplyRoofline(work, ceilings_, cold, timed);
  return !beaten;
}

absl::Status UnitJob::RunDuty() {
  const auto timed = std::find_if(cases_.begin(), cases_.end(), [this](const BoundCase& one) {
    const bool wanted = one.set == CaseSet::kTimed || !unit_.only_case.empty();
    return wanted && supported_[one.label];
  });
  if (timed == cases_.end()) return absl::OkStatus();
  LaneGate::Ticket ticket;
  if (on_cpu()) {
    ticket = services_.gate->EnterTiming(services_.stop);
    if (!ticket) return absl::CancelledError("the unit was cancelled before it was timed");
  }
  Progress(fmt::format("loading the device with {}", timed->label));
  TimeRequest request;
  request.bound_case = *timed;
  FETTLE_ASSIGN_OR_RETURN(request.b,
                          MakeRunnable(Context(), built_.at(candidate_.digest), *timed, *runner_));
  request.a = request.b;
  request.input_seed = TimedInputSeed(unit_.seed, /*attempt=*/0);
  request.files = FillFiles(*timed, services_.task->files());
  request.want_outputs = false;
  request.duty_ratios = DutyOptions().ratios;
  request.duty_span = std::chrono::nanoseconds(
      static_cast<std::int64_t>(std::clamp(unit_.duty_span_s, 0.05, 60.0) * 1e9));
  request.time_cap = static_cast<std::int64_t>(request.duty_ratios.size()) * request.duty_span;
  FETTLE_ASSIGN_OR_RETURN(const TimeObservation seen, runner_->TimeCase(request));
  result_.duty = {{"case", timed->label}, {"points", seen.duty}};
  return absl::OkStatus();
}

// What timed launches computed must be as right as what was verified.
Going UnitJob::JudgeTimedOutputs(const TimeRequest& request, const TimeObservation& seen,
                                 Stage stage) {
  const BoundCase* bound_case = &request.bound_case;
  if (seen.modified_input) {
    return Decide(Verdict::kIncorrect, stage, "input_modified", bound_case,
                  fmt::format("a timed launch changed input {}", *seen.modified_input));
  }
  if (seen.guard_violation) {
    return Decide(
        Verdict::kIncorrect, stage, "guard_overwritten", bound_case,
        fmt::format("a timed launch wrote outside its buffers: {}", *seen.guard_violation));
  }
  if (!seen.all_timed_outputs_equal) {
    return Decide(Verdict::kIncorrect, stage, "timed_output", bound_case,
                  "timed launches on the same inputs gave different outputs");
  }
  if (request.screen_only) return true;
  // On the inputs that came again and again, and on some that one launch alone saw.
  std::vector<InputSpec> specs(request.single_seeds.empty() ? 1 : 2);
  specs[0].seed = request.input_seed;
  if (seen.sampled && !request.single_seeds.empty()) {
    if (seen.judged_single < 0 || seen.judged_single >= std::ssize(request.single_seeds)) {
      return Decide(Verdict::kUnmeasurable, stage, "no_checked_sample", bound_case,
                    "the runner names no launch to be checked");
    }
    specs[1].seed = request.single_seeds[static_cast<std::size_t>(seen.judged_single)];
  }
  OutputJudge judge(*reference_);
  std::vector<std::vector<std::uint8_t>> outputs = seen.outputs;
  if (seen.outputs_kept) {
    std::vector<std::vector<std::int64_t>> rows;
    for (const InputSpec& spec : specs) {
      FETTLE_ASSIGN_OR_RETURN(auto of_one, judge.Rows(request.bound_case, spec));
      std::move(of_one.begin(), of_one.end(), std::back_inserter(rows));
    }
    auto fetched = runner_->FetchOutputs(rows);
    if (!fetched.ok()) return DecideFrom(fetched.status(), stage, bound_case);
    outputs = *std::move(fetched);
  }
  if (outputs.empty()) {
    return Decide(Verdict::kUnmeasurable, stage, "no_checked_sample", bound_case,
                  "no timed launch was checked; give it more time");
  }
  const auto each = static_cast<std::ptrdiff_t>(outputs.size() / specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto begin = outputs.begin() + static_cast<std::ptrdiff_t>(i) * each;
    FETTLE_ASSIGN_OR_RETURN(const Judgement judgement,
                            judge.Judge(request.bound_case, specs[i], {begin, begin + each}));
    if (judgement.passed) continue;
    return Decide(Verdict::kIncorrect, stage, "timed_output", bound_case,
                  fmt::format("the output of a timed launch{} is wrong: {}",
                              i == 0 ? "" : " on inputs that no other had", judgement.message));
  }
  return true;
}

}  // namespace fettle
