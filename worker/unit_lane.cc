// SPDX-License-Identifier: Apache-2.0

// A unit on its device: what it verifies beside other units, what it times alone.

#include <limits>
#include <utility>

#include "core/status_macros.h"
#include "judge/accept.h"
#include "worker/unit_job.h"

namespace fettle {
namespace {

using Going = absl::StatusOr<bool>;

}  // namespace

absl::StatusOr<std::unique_ptr<RunnerClient>> UnitJob::TakeRunner(LaneUse use) {
  if (own_ != nullptr && own_->alive()) return std::move(own_);
  return services_.lane->Take(use, /*fresh=*/unit_.kind != UnitKind::kEvaluate, services_.stop);
}

void UnitJob::GiveRunnerBack(LaneUse use, std::unique_ptr<RunnerClient> runner) {
  for (auto& [digest, built] : built_) {
    for (const auto& [key, module] : built.modules) {
      if (runner->alive()) runner->UnloadModule(module).IgnoreError();
    }
    built.modules.clear();
  }
  if (!runner->alive() && !services_.stop.stop_requested()) services_.lane->Suspect();
  if (unit_.kind == UnitKind::kEvaluate) {
    services_.lane->Return(use, std::move(runner));
  } else {
    own_ = std::move(runner);
  }
}

Going UnitJob::Holding(LaneUse use, const std::function<Going()>& stages) {
  Going going = HoldOnce(use, /*free_memory=*/false, stages);
  if (!absl::IsResourceExhausted(going.status()) || services_.lane->hosts_candidate()) return going;
  own_.reset();
  return HoldOnce(LaneUse::kAlone, /*free_memory=*/true, stages);
}

Going UnitJob::HoldOnce(LaneUse use, bool free_memory, const std::function<Going()>& stages) {
  const bool alone = use == LaneUse::kAlone && !services_.lane->hosts_candidate();
  Progress(alone ? "waiting to have the device alone" : "waiting for the device");
  FETTLE_ASSIGN_OR_RETURN(const Lane::Hold hold,
                          services_.lane->Enter(use, services_.stop, Haste()));
  Progress("preparing the runner");
  if (free_memory) services_.lane->EndIdleRunners();
  if (use == LaneUse::kAlone && measures() && unit_.kind != UnitKind::kRegister) {
    FETTLE_RETURN_IF_ERROR(FindCeilings());
  }
  FETTLE_ASSIGN_OR_RETURN(std::unique_ptr<RunnerClient> runner, TakeRunner(use));
  runner_ = runner.get();
  const double before_ns = runner_->device_ns();
  runner_->LimitDevice(unit_.device_cap_ms > 0 ? std::optional(DeviceLeft()) : std::nullopt);
  const Going going = stages();
  result_.device_ns += static_cast<std::int64_t>(runner_->device_ns() - before_ns);
  const bool spent = runner_->device_spent();
  runner_->LimitDevice(std::nullopt);
  runner_ = nullptr;
  GiveRunnerBack(use, std::move(runner));
  if (spent && !services_.stop.stop_requested()) return NoDeviceTime();
  return going;
}

// What the first candidates would wait for: ceilings, and runners that hold the search's inputs.
// The baseline goes the way of a candidate that is screened out.
absl::Status UnitJob::PrepareSearch() {
  own_.reset();
  Progress("waiting to have the device alone");
  {
    FETTLE_ASSIGN_OR_RETURN(const Lane::Hold hold,
                            services_.lane->Enter(LaneUse::kAlone, services_.stop));
    Progress("measuring what the device can reach");
    FETTLE_RETURN_IF_ERROR(FindCeilings());
  }
  Progress("preparing the search");
  for (const std::uint64_t seed : unit_.search_seeds) {
    WorkUnit first = unit_;
    first.kind = UnitKind::kEvaluate;
    first.candidate = first.denominator = BaselineKernel();
    first.incumbent_ratio = std::numeric_limits<double>::max();
    first.seed = seed;
    first.device_cap_ms = unit_.device_cap_ms > 0 ? DeviceLeft().count() : 0;
    if (unit_.device_cap_ms > 0 && first.device_cap_ms == 0) break;
    UnitJob job(first, services_);
    job.computes_ahead_ = false;
    const absl::StatusOr<UnitResult> done = job.Run();
    result_.device_ns += done.ok() ? done->device_ns : job.device_ns();
    if (absl::IsCancelled(done.status())) return done.status();
  }
  return absl::OkStatus();
}

bool UnitJob::IsContender() const {
  return judge::IsContender(*result_.measurement, unit_.incumbent_ratio, judge::AcceptanceRule());
}

// Candidates that are wrong on small cases, or clearly slower, are not worth the large ones. On a
// GPU, where verifying small cases takes longer than screening, those that are clearly slower are
// not worth that either.
Going UnitJob::OnDevice() {
  const bool hosts = services_.lane->hosts_candidate();
  // Where nothing can run beside it, one hold and one runner serve the whole unit.
  const auto holding = [this, hosts](LaneUse use, const std::function<Going()>& stages) -> Going {
    return hosts ? stages() : Holding(use, stages);
  };
  const auto stages = [this, hosts, &holding]() -> Going {
    if (unit_.kind == UnitKind::kRegister) {
      FETTLE_ASSIGN_OR_RETURN(const bool accepted,
                              holding(LaneUse::kLarge, [this] { return Register(); }));
      if (accepted && !hosts && !unit_.job_id.empty()) FETTLE_RETURN_IF_ERROR(PrepareSearch());
      return accepted;
    }
    const bool small = screens() || unit_.check_mode;
    const auto verify = [this, small]() -> Going {
      FETTLE_ASSIGN_OR_RETURN(const bool right,
                              Verify(small ? std::optional(CaseSet::kChecked) : std::nullopt));
      return right && (confirms() || unit_.check_mode) ? RunCheckMode() : Going(right);
    };
    if (screens() && !hosts) {
      const auto look = [this] { return Verify(CaseSet::kChecked, /*first_look=*/true); };
      FETTLE_ASSIGN_OR_RETURN(const bool plausible, Holding(LaneUse::kChecks, look));
      if (!plausible) return false;
      const auto screen = [this] { return Screen(); };
      FETTLE_ASSIGN_OR_RETURN(const bool promising, Holding(LaneUse::kAlone, screen));
      if (!promising) return false;
      FETTLE_RETURN_IF_ERROR(AwaitReference());
    }
    const auto time = [this]() -> Going {
      if (!screens() || result_.screening) return Measure();
      FETTLE_ASSIGN_OR_RETURN(const bool promising, Screen());
      return promising ? Measure() : Going(false);
    };
    FETTLE_ASSIGN_OR_RETURN(const bool right,
                            holding(small ? LaneUse::kChecks : LaneUse::kLarge, verify));
    if (!right || unit_.check_mode) return right;
    if (!measures()) return unit_.measure ? NotMeasuredBecauseEmulated() : Going(true);
    FETTLE_ASSIGN_OR_RETURN(const bool measured, holding(LaneUse::kAlone, time));
    // A confirmation begins with the timed cases, and where it finds them wrong it is not counted.
    // On a processor they are cheap to know before.
    if (!measured || !screens() || !hosts || !IsContender()) return measured;
    return holding(LaneUse::kLarge, [this] { return Verify(CaseSet::kTimed); });
  };
  return hosts ? Holding(LaneUse::kAlone, stages) : stages();
}

Going UnitJob::OnLane() {
  Going going = OnDevice();
  const bool passed = result_.verification && result_.verification->passed;
  if (unit_.duty_span_s > 0 && passed && going.ok() && !emulated()) {
    const auto load = [this]() -> Going {
      FETTLE_RETURN_IF_ERROR(RunDuty());
      return true;
    };
    const Going loaded = Holding(LaneUse::kAlone, load);
    FETTLE_RETURN_IF_ERROR(loaded.status());
  }
  own_.reset();  // Tools start processes of their own.
  if (unit_.kind == UnitKind::kConfirm && going.ok() && *going) going = SanitizeWinner();
  if (unit_.counters && going.ok()) FETTLE_RETURN_IF_ERROR(CountOnce());
  return going;
}

}  // namespace fettle
