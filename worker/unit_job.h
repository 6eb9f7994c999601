// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "core/blob.h"
#include "core/task.h"
#include "core/work_unit.h"
#include "profiler/roofline.h"
#include "verifier/verify.h"
#include "worker/lane.h"
#include "worker/lane_gate.h"
#include "worker/unit_builds.h"

namespace fettle {

// What a unit needs of the worker; all borrowed.
struct UnitServices {
  std::shared_ptr<const Task> task;
  Target target;
  KernelCompiler* compiler = nullptr;
  LaneGate* gate = nullptr;
  Lane* lane = nullptr;  // Null for kCompile.
  // Where check mode runs for a unit of another target than the cpu; both null where it cannot.
  Lane* check_lane = nullptr;
  KernelCompiler* check_compiler = nullptr;
  BlobStore* blobs = nullptr;
  CompileCache* cache = nullptr;              // Of `compiler`; may be null.
  std::function<void(std::string)> progress;  // May be empty.
  std::stop_token stop;
};

// One unit on its way through the stages. Used once.
class UnitJob {
 public:
  UnitJob(const WorkUnit& unit, UnitServices services);

  // As UnitRunner::Run, without its deadline.
  absl::StatusOr<UnitResult> Run();
  // Device time so far, for a unit whose Run failed.
  std::int64_t device_ns() const { return result_.device_ns; }

 private:
  // A stage returns true when the unit goes on, false when `result_.verdict` is set.
  using Going = absl::StatusOr<bool>;

  Going CheckPolicy();
  std::string BrokenConstraint() const;
  Going BindCases();
  std::string TooLarge(const BoundCase& drawn) const;
  absl::StatusOr<std::vector<BoundCase>> DrawHeldOut() const;
  Going CompileAll();
  Going OnLane();
  Going OnDevice();
  // Runs `stages` with a runner in runner_ while the unit holds its device. Where the device's
  // memory is short, once more with nobody beside it.
  Going Holding(LaneUse use, const std::function<Going()>& stages);
  Going HoldOnce(LaneUse use, bool free_memory, const std::function<Going()>& stages);
  absl::StatusOr<std::unique_ptr<RunnerClient>> TakeRunner(LaneUse use);
  // Takes what the stages left in runner_.
  void GiveRunnerBack(LaneUse use, std::unique_ptr<RunnerClient> runner);
  absl::Status PrepareSearch();
  Lane::Haste Haste() const {
    const bool patient = confirms() && !services_.lane->hosts_candidate();
    return patient ? Lane::Haste::kPatient : Lane::Haste::kSearching;
  }
  bool IsContender() const;
  Going Register();
  // On the cases of one set, or on all of them; adds to what was verified before. `first_look`: as
  // VerifyOptions; what is verified after it replaces it.
  Going Verify(std::optional<CaseSet> only, bool first_look = false);
  Going RunCheckMode();
  Going CheckModeAt(int lanes);
  // A GPU's would-be winner in check mode, before the device is held.
  Going CheckOnCpu();
  // Why it could not run; empty: it ran, and the report says what it saw.
  absl::StatusOr<std::string> CheckOnCpuAt(int lanes, const std::vector<BoundCase>& small,
                                           RunnerClient& runner, Reference& reference,
                                           VerificationReport* report);
  BuildContext CheckContext();
  std::vector<BoundCase> CheckModeCases() const;
  // Warp widths of the check builds.
  std::vector<int> CheckModeWidths() const;
  // Compiles the check builds, both at once and before the device is held; what comes out of the
  // compiler's cache later is judged there.
  absl::Status BuildChecksAhead();
  // Has the reference compute what a GPU's cases will be judged by, while others compile; once for
  // all units of a seed.
  std::shared_future<void> StartAhead();
  void EvaluateAhead();
  // What is judged after this has been computed: nothing waits for it while it holds the device.
  absl::Status AwaitReference();
  // On a processor the reference computes what comes next while kernels run.
  void ComputeNext(const std::vector<BoundCase>& cases, const VerifyOptions& options,
                   std::stop_token stop);
  bool screens() const {
    return unit_.kind == UnitKind::kEvaluate && measures() && unit_.screen &&
           unit_.only_case.empty();
  }
  Going Screen();
  Going Measure();
  Going NotMeasuredBecauseEmulated();
  // Runs the first timed case at several duty ratios; no verdict depends on it.
  absl::Status RunDuty();
  // Makes the call of the first timed case once more under the vendor's profiler.
  absl::Status CountOnce();
  // The same call as a file for a program outside the sandbox.
  absl::StatusOr<Replay> ReplayOf(const BoundCase& bound_case);
  // A confirmation that looks like a win goes under compute-sanitizer's tools, on small cases.
  Going SanitizeWinner();
  std::vector<BoundCase> SanitizedCases() const;
  Going MeasureAgainst(const KernelUnderTest& other, Stage stage, bool screen,
                       std::optional<Measurement>* into);
  Going TimeOne(BuiltKernel& a, const BoundCase& bound_case, Stage stage, bool screen,
                Measurement* measurement);
  // Both kernels once more with everything in the cache, for people: decides nothing.
  Going TimeHot(TimeRequest request, Stage stage);
  Going IsPossible(const BuiltKernel& a, const BoundCase& work, bool cold, CaseMeasurement& timed);
  Going JudgeTimedOutputs(const TimeRequest& request, const TimeObservation& seen, Stage stage);

  bool Decide(Verdict verdict, Stage stage, std::string reason, const BoundCase* bound_case,
              std::string message, nlohmann::json evidence = nlohmann::json::object());
  // A failed call of the runner as a verdict, or the error where it is none.
  Going DecideFrom(const absl::Status& status, Stage stage, const BoundCase* bound_case);
  absl::StatusOr<BuiltKernel*> Builds(const KernelUnderTest& kernel,
                                      const std::vector<BoundCase>& cases);
  absl::StatusOr<std::vector<CaseUnderTest>> CasesUnderTest(const BuildContext& context,
                                                            BuiltKernel& built,
                                                            RunnerSession& session,
                                                            const std::vector<BoundCase>& cases,
                                                            bool with_baseline, Going* going);
  VerifyOptions MakeVerifyOptions() const;
  BuildContext Context();
  // Tells what the unit does from now on; how long each took is in the result's environment.
  void Progress(const std::string& line);
  absl::Status Record(const BuiltKernel& built);
  absl::Status FindCeilings();
  void RefuseTask();
  // What is left of the device time that the unit may take; a day where it has no limit.
  std::chrono::milliseconds DeviceLeft() const;
  // The verdict on a unit that has none left.
  Going NoDeviceTime();
  // Adds what a tool took that had the device since `start`.
  void ChargeTool(std::chrono::steady_clock::time_point start);
  bool on_cpu() const { return services_.target.vendor == Vendor::kCpu; }
  bool confirms() const {
    return unit_.kind == UnitKind::kConfirm || unit_.kind == UnitKind::kRerun;
  }
  bool emulated() const { return services_.lane != nullptr && services_.lane->device().emulated; }
  bool measures() const { return unit_.measure && !emulated(); }
  // Kernels run on this machine's processor, and large cases would take too long.
  bool RunsOnHost() const { return emulated() || services_.target.vendor == Vendor::kCpu; }
  KernelUnderTest BaselineKernel() const;
  nlohmann::json Environment() const;

  const WorkUnit& unit_;
  UnitServices services_;
  UnitResult result_;
  KernelUnderTest candidate_;                 // The baseline when registering.
  std::vector<BoundCase> cases_;              // All of the unit.
  std::map<std::string, bool> supported_;     // By case label.
  std::map<std::string, BuiltKernel> built_;  // By digest, fast mode.
  CompiledAhead ahead_;
  std::vector<std::pair<std::string, std::chrono::steady_clock::time_point>> stages_;
  nlohmann::json hot_ = nlohmann::json::object();     // By case label: TimeHot's medians.
  std::optional<VerificationReport> checked_on_cpu_;  // What CheckOnCpu saw.
  RunnerClient* runner_ = nullptr;                    // While on the lane.
  std::unique_ptr<RunnerClient> own_;                 // Of a unit that shares no runner.
  std::shared_ptr<Lane::TaskState> kept_;
  Reference* reference_ = nullptr;
  Ceilings ceilings_;
  std::shared_future<void>
      computed_;                // Of the unit's seed; invalid where nothing is computed ahead.
  bool looked_only_ = false;    // result_.verification is a first look.
  bool computes_ahead_ = true;  // EvaluateAhead.
};

}  // namespace fettle
