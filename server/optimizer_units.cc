// SPDX-License-Identifier: Apache-2.0
// CheckTask and TryKernel: work units outside any job.

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/json_text.h"
#include "core/portable_target.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "server/errors.h"
#include "server/ids.h"
#include "server/job_measures.h"
#include "server/optimizer_service.h"
#include "server/unary.h"
#include "server/unit_call.h"

namespace fettle {
namespace {

struct LoadedTask {
  std::shared_ptr<const Task> task;
  std::string blob, target, device_model;
};

absl::StatusOr<LoadedTask> LoadTask(const OptimizerParts& parts, const std::string& blob,
                                    const std::string& target) {
  if (blob.empty()) return errors::BadField("task_blob", "must hold a task folder");
  if (blob.size() > limits::kMaxTaskBlobBytes) {
    return errors::TooLong("task_blob", blob.size(), limits::kMaxTaskBlobBytes);
  }
  absl::StatusOr<TaskFiles> files = UnpackTaskFiles(blob);
  if (!files.ok()) return errors::BadField("task_blob", StatusText(files.status()));
  LoadedTask loaded;
  std::vector<TaskProblem> problems;
  absl::StatusOr<std::shared_ptr<const Task>> task = Task::Parse(*std::move(files), &problems);
  if (!task.ok()) {
    return absl::InvalidArgumentError(fmt::format(
        "task_blob: {}", problems.empty() ? StatusText(task.status()) : FormatProblems(problems)));
  }
  loaded.task = *std::move(task);
  if (target != "auto") {
    if (absl::Status known = FindDeviceTarget(target).status(); !known.ok()) {
      return errors::BadField("target", StatusText(known));
    }
  }
  const std::optional<DeviceChoice> choice = parts.dispatcher.Choose(target, "");
  if (!choice.has_value() && (target == "auto" || !parts.dispatcher.Workers().empty())) {
    return errors::NoWorkerFor(target);
  }
  // Without any worker yet the unit waits for one.
  loaded.target = choice.has_value() ? choice->target : target;
  loaded.device_model = choice.has_value() ? choice->device_model : "";
  FETTLE_ASSIGN_OR_RETURN(loaded.blob, parts.store.blobs().Put(blob));
  return loaded;
}

WorkUnit BaselineUnit(const LoadedTask& loaded) {
  const KernelSpec& baseline = loaded.task->baseline();
  WorkUnit unit;
  unit.task_digest = loaded.task->digest();
  unit.task_blob = loaded.blob;
  unit.target = loaded.target;
  unit.device_model = loaded.device_model;
  unit.denominator = {CandidateDigest(unit.task_digest, unit.target, baseline, baseline.values),
                      baseline, baseline.values};
  unit.candidate = unit.denominator;
  unit.seed = RandomSeed();
  unit.held_out_seed = RandomSeed();
  unit.screen = false;
  return unit;
}

// The result as a document, with held-out details and seeds removed.
absl::StatusOr<nlohmann::json> ShownResult(const UnitEnd& outcome) {
  auto json = nlohmann::json::parse(outcome.result_json, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InternalError("the worker's result is not a JSON object");
  return WithoutSecrets(std::move(json));
}

}  // namespace

OptimizerService::Unary* OptimizerService::CheckTask(Context* context,
                                                     const v1::CheckTaskRequest* request,
                                                     v1::CheckTaskResponse* response) {
  if (absl::Status allowed = parts_.access.Check(*context, AccessRole::kPropose); !allowed.ok()) {
    return RefuseUnary(allowed);
  }
  return UnitCall::Start(
      parts_.dispatcher, parts_.events, parts_.executor,
      [this, request]() -> absl::StatusOr<WorkUnit> {
        FETTLE_ASSIGN_OR_RETURN(const LoadedTask loaded,
                                LoadTask(parts_, request->task_blob(), request->target()));
        WorkUnit unit = BaselineUnit(loaded);
        unit.kind = UnitKind::kRegister;
        unit.deadline_ms = limits::kRegisterDeadlineMs;
        return unit;
      },
      [response](const UnitEnd& outcome) -> absl::Status {
        FETTLE_ASSIGN_OR_RETURN(const nlohmann::json shown, ShownResult(outcome));
        const auto verdict = shown.find("verdict");
        response->set_passed(verdict == shown.end() || verdict->is_null());
        response->set_report_json(shown.dump(-1, ' ', false, kReplaceInvalid));
        return absl::OkStatus();
      });
}

OptimizerService::Unary* OptimizerService::TryKernel(Context* context,
                                                     const v1::TryKernelRequest* request,
                                                     v1::TryKernelResponse* response) {
  if (absl::Status allowed = parts_.access.Check(*context, AccessRole::kPropose); !allowed.ok()) {
    return RefuseUnary(allowed);
  }
  return UnitCall::Start(
      parts_.dispatcher, parts_.events, parts_.executor,
      [this, request]() -> absl::StatusOr<WorkUnit> {
        if (request->kernel_json().size() > limits::kMaxKernelJsonBytes) {
          return errors::TooLong("kernel_json", request->kernel_json().size(),
                                 limits::kMaxKernelJsonBytes);
        }
        FETTLE_ASSIGN_OR_RETURN(const LoadedTask loaded,
                                LoadTask(parts_, request->task_blob(), request->target()));
        WorkUnit unit = BaselineUnit(loaded);
        unit.kind = UnitKind::kEvaluate;
        unit.measure = request->measure();
        unit.counters = request->counters();
        unit.only_case = request->only_case();
        unit.deadline_ms = limits::kConfirmDeadlineMs;
        if (request->kernel_json().empty()) return unit;
        const auto block = ParseJson(request->kernel_json(), kMaxPartNesting);
        std::vector<TaskProblem> problems;
        absl::StatusOr<KernelSpec> kernel = loaded.task->ParseKernelSpec(block, &problems);
        if (!kernel.ok()) {
          return absl::InvalidArgumentError(
              fmt::format("kernel_json: {}", problems.empty() ? StatusText(kernel.status())
                                                              : FormatProblems(problems)));
        }
        unit.candidate.kernel = *std::move(kernel);
        unit.candidate.values = unit.candidate.kernel.values;
        unit.candidate.digest = CandidateDigest(unit.task_digest, unit.target,
                                                unit.candidate.kernel, unit.candidate.values);
        return unit;
      },
      [response](const UnitEnd& outcome) -> absl::Status {
        FETTLE_ASSIGN_OR_RETURN(const nlohmann::json shown, ShownResult(outcome));
        response->set_result_json(shown.dump(-1, ' ', false, kReplaceInvalid));
        return absl::OkStatus();
      });
}

}  // namespace fettle
