// SPDX-License-Identifier: Apache-2.0
#include "worker/unit_job.h"

#include <algorithm>
#include <chrono>
#include <future>

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/status_macros.h"
#include "core/task_model.h"
#include "judge/accept.h"
#include "profiler/ceilings.h"
#include "verifier/policy.h"
#include "worker/runner_protocol.h"
#include "worker/sandbox.h"
#include "worker/unit_stop.h"

namespace fettle {
namespace {

using Going = absl::StatusOr<bool>;

constexpr std::int64_t kCpuHeldOutBytes = std::int64_t{8} << 20;
constexpr std::int64_t kGpuHeldOutBytes = std::int64_t{256} << 20;
// What a CPU, or the host reference of a GPU's case, computes in about a second.
constexpr double kCpuHeldOutFlops = 1e7, kGpuHeldOutFlops = 4.5e9;
// A CPU takes some 100 ns for each thread of a GPU kernel before the thread has done anything.
constexpr std::int64_t kCpuHeldOutThreads = std::int64_t{1} << 18;

bool IsTimed(const BoundCase& bound_case) { return bound_case.set == CaseSet::kTimed; }

// The warp width that the cpu runs a kernel at when it is timed.
int LanesOf(const KernelUnderTest& kernel) { return kernel.kernel.lanes == 64 ? 64 : 32; }

// Saturating.
std::int64_t ThreadsOf(const BoundPlan& plan) {
  double threads = 0;
  for (const BoundStep& step : plan.steps) {
    if (step.kind != BoundStep::Kind::kKernel) continue;
    double of_step = 1;
    for (const std::int64_t extent : step.grid) of_step *= static_cast<double>(extent);
    for (const std::int64_t extent : step.block) of_step *= static_cast<double>(extent);
    threads += of_step;
  }
  return static_cast<std::int64_t>(std::min(threads, 9e18));
}

}  // namespace

UnitJob::UnitJob(const WorkUnit& unit, UnitServices services)
    : unit_(unit),
      services_(std::move(services)),
      ahead_(unit.compiled, services_.cache, *services_.blobs) {
  result_.unit_id = unit.id;
  result_.attempt = unit.attempt;
  candidate_ = unit.kind == UnitKind::kRegister ? BaselineKernel() : unit.candidate;
}

void UnitJob::Progress(const std::string& line) {
  stages_.emplace_back(line, std::chrono::steady_clock::now());
  if (services_.progress) services_.progress(line);
}

BuildContext UnitJob::Context() {
  return {.task = services_.task.get(),
          .target = services_.target,
          .compiler = services_.compiler,
          .gate = services_.gate,
          .stop = services_.stop,
          .ahead = &ahead_,
          .keep = unit_.kind == UnitKind::kCompile};
}

KernelUnderTest UnitJob::BaselineKernel() const {
  KernelUnderTest baseline;
  baseline.kernel = services_.task->baseline();
  baseline.values = baseline.kernel.values;
  baseline.digest = CandidateDigest(services_.task->digest(), services_.target.name,
                                    baseline.kernel, baseline.values);
  return baseline;
}

nlohmann::json UnitJob::Environment() const {
  utsname system{};
  uname(&system);
  nlohmann::json environment = {{"host", system.nodename},
                                {"kernel", system.release},
                                {"fettle_version", FETTLE_VERSION},
                                {"compiler", services_.compiler->identity()},
                                {"sandbox", sandbox_level().name()}};
  if (services_.lane != nullptr) environment["device"] = ToJson(services_.lane->device());
  if (ceilings_.bytes_per_s > 0) environment["ceilings"] = ToJson(ceilings_);
  nlohmann::json spans = nlohmann::json::array();
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const auto end =
        i + 1 < stages_.size() ? stages_[i + 1].second : std::chrono::steady_clock::now();
    spans.push_back(
        {{"doing", stages_[i].first},
         {"ms", std::chrono::duration<double, std::milli>(end - stages_[i].second).count()}});
  }
  environment["stages"] = std::move(spans);
  if (!hot_.empty()) environment["hot"] = hot_;
  return environment;
}

bool UnitJob::Decide(Verdict verdict, Stage stage, std::string reason, const BoundCase* bound_case,
                     std::string message, nlohmann::json evidence) {
  VerdictRecord record;
  record.verdict = verdict;
  record.stage = stage;
  record.reason_code = std::move(reason);
  record.message = std::move(message);
  record.evidence = std::move(evidence);
  if (bound_case != nullptr) {
    // What a held-out case looks like stays secret.
    record.case_label = bound_case->set == CaseSet::kHeldOut ? "held_out" : bound_case->label;
  }
  result_.verdict = std::move(record);
  return false;
}

Going UnitJob::DecideFrom(const absl::Status& status, Stage stage, const BoundCase* bound_case) {
  const std::string message(status.message());
  const nlohmann::json evidence = {{"error", message}};
  switch (status.code()) {
    case absl::StatusCode::kAborted:
      return Decide(Verdict::kCrashed, stage,
                    message.find("SIG") != std::string::npos ? "crashed_signal" : "crashed",
                    bound_case, message, evidence);
    case absl::StatusCode::kDeadlineExceeded:
      return Decide(Verdict::kTimeout, stage, "deadline", bound_case, message, evidence);
    case absl::StatusCode::kInvalidArgument:
      return Decide(Verdict::kLaunchError, stage, "launch_refused", bound_case, message, evidence);
    case absl::StatusCode::kNotFound:
      return Decide(Verdict::kLaunchError, stage, "symbol_missing", bound_case, message, evidence);
    default:
      return status;
  }
}

absl::Status UnitJob::Record(const BuiltKernel& built) {
  for (const auto& [key, build] : built.builds) {
    BuildRecord record = build.record;
    FETTLE_ASSIGN_OR_RETURN(record.code_object, services_.blobs->Put(build.code_object));
    result_.builds.push_back(std::move(record));
  }
  if (built.rejected) result_.builds.push_back(*built.rejected);
  return absl::OkStatus();
}

Going UnitJob::CheckPolicy() {
  PolicyRules rules;
  rules.vendor = services_.target.vendor;
  rules.allow_asm = services_.task->model().contract.inline_assembly;
  std::optional<VerdictRecord> refused;
  // A baseline is the task author's own.
  if (unit_.kind != UnitKind::kRegister) {
    refused = fettle::CheckPolicy(candidate_.kernel, rules);
  }
  if (refused) {
    result_.verdict = *std::move(refused);
    return false;
  }
  absl::StatusOr<bool> admitted =
      services_.task->Admits(candidate_.kernel, candidate_.values, services_.target, nullptr);
  if (!admitted.ok()) {
    return Decide(Verdict::kRefused, Stage::kPolicy, "constraints", nullptr,
                  std::string(admitted.status().message()));
  }
  if (!*admitted) {
    return Decide(
        Verdict::kRefused, Stage::kPolicy, "constraints", nullptr,
        fmt::format("the values break the kernel's constraint \"{}\"", BrokenConstraint()));
  }
  return true;
}

// The first constraint that the candidate's values break.
std::string UnitJob::BrokenConstraint() const {
  for (const Expr& constraint : candidate_.kernel.constraints) {
    KernelSpec alone = candidate_.kernel;
    alone.constraints = {constraint};
    const absl::StatusOr<bool> holds =
        services_.task->Admits(alone, candidate_.values, services_.target, nullptr);
    if (!holds.ok() || !*holds) return constraint.text();
  }
  return "";
}

// What a drawn case has too much of for this target, if anything.
std::string UnitJob::TooLarge(const BoundCase& drawn) const {
  const double flops = RunsOnHost() ? kCpuHeldOutFlops : kGpuHeldOutFlops;
  if (drawn.work_flops > flops) return fmt::format("the cap of {:.0f} operations", flops);
  if (!RunsOnHost()) return "";
  const KernelSpec& baseline = services_.task->baseline();
  const absl::StatusOr<BoundPlan> plan =
      services_.task->BindPlan(baseline, baseline.values, drawn, services_.target);
  if (!plan.ok()) return "";  // Verification tells.
  return ThreadsOf(*plan) > kCpuHeldOutThreads
             ? fmt::format("the cap of {} threads a call", kCpuHeldOutThreads)
             : "";
}

// Among the sizes that the candidate claims, where there are any to draw: a kernel for one shape
// only has none.
absl::StatusOr<std::vector<BoundCase>> UnitJob::DrawHeldOut() const {
  const Task& task = *services_.task;
  const std::int64_t most = RunsOnHost() ? kCpuHeldOutBytes : kGpuHeldOutBytes;
  if (!candidate_.kernel.guards.empty()) {
    absl::StatusOr<std::vector<BoundCase>> claimed = task.DrawHeldOut(
        unit_.held_out_seed, most,
        [&](const BoundCase& one) {
          std::string cause = TooLarge(one);
          const absl::StatusOr<bool> supported = task.Supports(candidate_.kernel, one);
          if (cause.empty() && !(supported.ok() && *supported)) cause = "the kernel's `requires`";
          return cause;
        },
        /*near_declared=*/true);
    if (claimed.ok()) return claimed;
  }
  return task.DrawHeldOut(unit_.held_out_seed, most,
                          [this](const BoundCase& one) { return TooLarge(one); });
}

Going UnitJob::BindCases() {
  const Task& task = *services_.task;
  for (const CaseSet set : {CaseSet::kTimed, CaseSet::kChecked}) {
    FETTLE_ASSIGN_OR_RETURN(std::vector<BoundCase> cases,
                            task.BindCases(set, unit_.seed, services_.target));
    for (BoundCase& one : cases) cases_.push_back(std::move(one));
  }
  if (confirms() || unit_.kind == UnitKind::kRegister) {
    FETTLE_ASSIGN_OR_RETURN(std::vector<BoundCase> drawn, DrawHeldOut());
    for (BoundCase& one : drawn) cases_.push_back(std::move(one));
  }
  if (!unit_.only_case.empty()) {
    std::erase_if(cases_, [this](const BoundCase& one) { return one.label != unit_.only_case; });
    if (cases_.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("the task has no case \"{}\"; write timed/N or checked/N", unit_.only_case));
    }
  }
  // Sizes that are timed on hardware would take an emulator hours, for times that do not count.
  if (emulated() && unit_.only_case.empty()) std::erase_if(cases_, IsTimed);
  bool any_timed = emulated();
  for (const BoundCase& one : cases_) {
    absl::StatusOr<bool> supported = task.Supports(candidate_.kernel, one);
    if (supported.ok() && *supported) {
      supported = task.Admits(candidate_.kernel, candidate_.values, services_.target, &one);
    }
    if (!supported.ok()) {
      return Decide(Verdict::kRefused, Stage::kPolicy, "requires", &one,
                    std::string(supported.status().message()));
    }
    supported_[one.label] = *supported;
    any_timed = any_timed || (*supported && (IsTimed(one) || !unit_.only_case.empty()));
  }
  if (!any_timed) {
    return Decide(Verdict::kUnsupportedShape, Stage::kPolicy, "no_timed_case", nullptr,
                  "the kernel's `requires` holds for no timed case");
  }
  return true;
}

absl::StatusOr<BuiltKernel*> UnitJob::Builds(const KernelUnderTest& kernel,
                                             const std::vector<BoundCase>& cases) {
  const auto found = built_.find(kernel.digest);
  if (found != built_.end()) {
    // The same kernel for further cases: the compiler's cache makes what is there already free.
    bool complete = true;
    for (const BoundCase& one : cases) {
      FETTLE_ASSIGN_OR_RETURN(
          const Task::BuildInputs inputs,
          services_.task->BuildInputsFor(kernel.kernel, kernel.values, one, services_.target));
      complete = complete && (inputs.entries.empty() || found->second.builds.contains(inputs.key));
    }
    if (complete) return &found->second;
  }
  FETTLE_ASSIGN_OR_RETURN(BuiltKernel built, BuildKernel(Context(), kernel, cases,
                                                         CompileMode::kFast, LanesOf(kernel)));
  result_.compile_ns += built.compile_ns;
  if (found != built_.end()) built.builds.merge(found->second.builds);
  return &(built_[kernel.digest] = std::move(built));
}

// Compiles the candidate, then what it is compared with.
Going UnitJob::CompileAll() {
  Progress("compiling");
  std::vector<BoundCase> supported, timed;
  for (const BoundCase& one : cases_) {
    if (!supported_.at(one.label)) continue;
    supported.push_back(one);
    if (IsTimed(one)) timed.push_back(one);
  }
  absl::StatusOr<BuiltKernel*> candidate = Builds(candidate_, supported);
  if (absl::IsInvalidArgument(candidate.status())) {
    return Decide(Verdict::kCompileError, Stage::kCompile, "compile_rejected", nullptr,
                  std::string(candidate.status().message()));
  }
  FETTLE_RETURN_IF_ERROR(candidate.status());
  FETTLE_RETURN_IF_ERROR(Record(**candidate));
  if (const auto& rejected = (*candidate)->rejected) {
    std::string first = "the compiler rejected the kernel";
    for (const auto& diagnostic : rejected->diagnostics) {
      if (diagnostic.value("severity", std::string()) != "error") continue;
      first = fmt::format("{}:{}: {}", diagnostic.value("file", std::string()),
                          diagnostic.value("line", 0), diagnostic.value("text", std::string()));
      break;
    }
    return Decide(Verdict::kCompileError, Stage::kCompile, "compile_rejected", nullptr, first,
                  {{"diagnostics", rejected->diagnostics}, {"log", rejected->log}});
  }
  if ((unit_.kind == UnitKind::kRegister && on_cpu()) || confirms()) {
    FETTLE_RETURN_IF_ERROR(BuildChecksAhead());
  }
  if (unit_.kind == UnitKind::kCompile || unit_.kind == UnitKind::kRegister) return true;
  std::vector<std::pair<KernelUnderTest, std::vector<BoundCase>>> others = {
      {BaselineKernel(), supported}};
  if (measures()) {
    others.emplace_back(unit_.denominator, timed);
    if (unit_.incumbent) others.emplace_back(*unit_.incumbent, timed);
  }
  for (const auto& [kernel, cases] : others) {
    FETTLE_ASSIGN_OR_RETURN(const BuiltKernel* built, Builds(kernel, cases));
    if (built->rejected) {
      return absl::FailedPreconditionError(
          fmt::format("the kernel {} that candidates are compared with does not compile: {}",
                      kernel.digest.substr(0, 12), built->rejected->log.substr(0, 400)));
    }
  }
  return true;
}

// Once per device; without them there is no floor, which is no reason to refuse a unit.
absl::Status UnitJob::FindCeilings() {
  LaneGate::Ticket ticket;
  if (services_.lane->on_cpu()) {
    ticket = services_.gate->EnterTiming(services_.stop);
    if (!ticket) return absl::CancelledError("the unit was cancelled before it was timed");
  }
  absl::StatusOr<Ceilings> ceilings = services_.lane->GetCeilings(services_.stop);
  if (absl::IsCancelled(ceilings.status())) return ceilings.status();
  if (ceilings.ok()) ceilings_ = *ceilings;
  return absl::OkStatus();
}

Going UnitJob::NotMeasuredBecauseEmulated() {
  return Decide(Verdict::kUnmeasurable, confirms() ? Stage::kConfirm : Stage::kMeasure, "emulated",
                nullptr,
                fmt::format("right on {} cases under an emulator ({}), whose times do not count",
                            cases_.size(), services_.lane->device().model));
}

std::chrono::milliseconds UnitJob::DeviceLeft() const {
  if (unit_.device_cap_ms <= 0) return std::chrono::hours(24);
  return std::chrono::milliseconds(
      std::max<std::int64_t>(0, unit_.device_cap_ms - (result_.device_ns + 999'999) / 1'000'000));
}

Going UnitJob::NoDeviceTime() {
  const Stage stage = unit_.kind == UnitKind::kRegister ? Stage::kRegister
                      : confirms()                      ? Stage::kConfirm
                                                        : Stage::kMeasure;
  return Decide(Verdict::kUnmeasurable, stage, kDeviceTimeReason, nullptr,
                fmt::format("it would take more than the {} s of device time that were left for it",
                            static_cast<double>(unit_.device_cap_ms) / 1000));
}

void UnitJob::ChargeTool(std::chrono::steady_clock::time_point start) {
  result_.device_ns += std::min<std::int64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
          .count(),
      std::chrono::nanoseconds(DeviceLeft()).count());
}

absl::StatusOr<Replay> UnitJob::ReplayOf(const BoundCase& bound_case) {
  Replay replay;
  BuiltKernel& built = built_.at(candidate_.digest);
  FETTLE_ASSIGN_OR_RETURN(const Build* const build, FindBuild(Context(), built, bound_case));
  replay.code_object = build->code_object;
  for (const auto& [entry, symbol] : build->symbols) replay.symbols.push_back(symbol);
  replay.request.bound_case = bound_case;
  replay.request.kernel.symbols = build->symbols;
  FETTLE_ASSIGN_OR_RETURN(replay.request.kernel.plan,
                          services_.task->BindPlan(built.kernel.kernel, built.kernel.values,
                                                   bound_case, services_.target));
  replay.request.input_seed = unit_.seed;
  replay.request.files = FillFiles(bound_case, services_.task->files());
  replay.request.want_outputs = false;
  replay.request.launch_limit = std::chrono::minutes(1);  // Tools repeat it, or slow it down.
  return replay;
}

absl::Status UnitJob::CountOnce() {
  CounterReport report;
  report.absent = "the kernel is not right";
  if (result_.verification && result_.verification->passed) {
    const auto timed = std::find_if(cases_.begin(), cases_.end(), [this](const BoundCase& one) {
      return supported_[one.label] && (IsTimed(one) || !unit_.only_case.empty());
    });
    report.absent = "no timed case runs here";
    if (timed != cases_.end()) {
      FETTLE_ASSIGN_OR_RETURN(const Lane::Hold hold,
                              services_.lane->Enter(LaneUse::kAlone, services_.stop));
      Progress(fmt::format("counting {}", timed->label));
      FETTLE_ASSIGN_OR_RETURN(const Replay replay, ReplayOf(*timed));
      const UnitStop limited(services_.stop, DeviceLeft());
      const auto start = std::chrono::steady_clock::now();
      report = services_.lane->Count(replay, limited.token());
      ChargeTool(start);
    }
  }
  result_.counters = ToJson(report);
  return absl::OkStatus();
}

// Whatever is wrong with a baseline is a reason to refuse its task.
void UnitJob::RefuseTask() {
  if (!result_.verdict || result_.verdict->verdict == Verdict::kRefused) return;
  if (result_.verdict->reason_code == kDeviceTimeReason) return;  // Says nothing about the task.
  VerdictRecord& record = *result_.verdict;
  record.evidence = {{"baseline", ToJson(record)}};
  record.message = fmt::format("the task's own baseline is {} at stage {}: {}",
                               std::string(VerdictName(record.verdict)),
                               std::string(StageName(record.stage)), record.message);
  record.reason_code = "baseline_" + record.reason_code;
  record.verdict = Verdict::kRefused;
  record.stage = Stage::kRegister;
}

absl::StatusOr<UnitResult> UnitJob::Run() {
  const auto start = std::chrono::steady_clock::now();
  std::shared_future<void> computing;  // Where this unit does it.
  const auto stages = [this, &computing]() -> Going {
    FETTLE_ASSIGN_OR_RETURN(const bool allowed, CheckPolicy());
    if (!allowed) return false;
    FETTLE_ASSIGN_OR_RETURN(const bool bound, BindCases());
    if (!bound) return false;
    if (services_.lane != nullptr) {
      FETTLE_ASSIGN_OR_RETURN(kept_, services_.lane->StateFor(*services_.task));
      reference_ = kept_->reference.get();
      if (!services_.lane->on_cpu() && computes_ahead_) {
        computing = StartAhead();
      }
    }
    FETTLE_ASSIGN_OR_RETURN(const bool compiled, CompileAll());
    if (!compiled || unit_.kind == UnitKind::kCompile) return compiled;
    if (confirms() && !on_cpu()) {
      FETTLE_ASSIGN_OR_RETURN(const bool clean, CheckOnCpu());
      if (!clean) return false;
    }
    // What a search sees first needs little of it.
    if (!screens() || services_.lane->hosts_candidate()) FETTLE_RETURN_IF_ERROR(AwaitReference());
    return OnLane();
  };
  const Going decided = stages();
  if (computing.valid()) computing.wait();  // It uses this object.
  FETTLE_RETURN_IF_ERROR(decided.status());
  if (unit_.kind == UnitKind::kRegister) RefuseTask();
  if (result_.verdict && !unit_.job_id.empty() && !result_.verdict->case_label.empty()) {
    result_.verdict->evidence["reproduce"] = fmt::format(
        "fettle reproduce {} --job {} --task FOLDER", unit_.candidate.digest, unit_.job_id);
  }
  result_.environment = Environment();
  result_.compiled = ahead_.kept();
  if (!result_.registration.is_object()) result_.registration = nlohmann::json::object();
  result_.wall_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
          .count();
  return std::move(result_);
}

}  // namespace fettle
