// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <fmt/format.h>

#include "cli/verify_bundle.h"
#include "core/digest.h"
#include "core/status_macros.h"
#include "core/target.h"
#include "worker/toolchains.h"
#include "worker/unit_builds.h"

namespace fettle {
namespace {

// Compiles one kernel for one target and compares what the bundle holds of it.
absl::Status RebuildKernel(const BundleModel& model, const BundleKernel& kernel,
                           const std::string& target, const std::string& machine,
                           const Toolchains& toolchains, std::stop_token stop,
                           RebuildReport& report) {
  const std::string what = fmt::format("{} for {}", kernel.id, target);
  BuildContext build;
  FETTLE_ASSIGN_OR_RETURN(build.target, FindTarget(target));
  const absl::StatusOr<KernelCompiler*> compiler = toolchains.For(build.target);
  if (!compiler.ok()) {
    report.notes.push_back(
        fmt::format("{}: not compared: {}", what, std::string(compiler.status().message())));
    return absl::OkStatus();
  }
  build.compiler = *compiler;
  LaneGate gate(2);
  build.gate = &gate;
  build.task = model.task.get();
  build.stop = std::move(stop);
  FETTLE_ASSIGN_OR_RETURN(const std::vector<BoundCase> all, OwnCases(*model.task, target));
  std::set<std::string> keys;
  for (const BundleBuild& one : model.builds) {
    if (one.kernel == kernel.id && one.target == target) keys.insert(one.key);
  }
  std::vector<BoundCase> cases;
  for (const BoundCase& bound_case : all) {
    FETTLE_ASSIGN_OR_RETURN(
        const Task::BuildInputs inputs,
        model.task->BuildInputsFor(kernel.kernel, kernel.values, bound_case, build.target));
    if (keys.contains(inputs.key)) cases.push_back(bound_case);
  }
  const KernelUnderTest under{.digest = {}, .kernel = kernel.kernel, .values = kernel.values};
  FETTLE_ASSIGN_OR_RETURN(
      const BuiltKernel built,
      BuildKernel(build, under, cases, CompileMode::kFast, kernel.kernel.lanes == 64 ? 64 : 32));
  for (const BundleBuild& one : model.builds) {
    if (one.kernel != kernel.id || one.target != target) continue;
    const auto found = built.builds.find(one.key);
    if (one.selectors.empty()) {
      report.notes.push_back(fmt::format(
          "{}: not compared: held-out cases alone needed it, and no operator uses it", one.path));
    } else if (found == built.builds.end()) {
      report.different.push_back(one.path);
    } else if (found->second.record.compiler != one.compiler) {
      report.notes.push_back(fmt::format("{}: not compared: made by {}, here is {}", one.path,
                                         one.compiler, found->second.record.compiler));
    } else if (!one.machine.empty() && one.machine != machine) {
      report.notes.push_back(fmt::format("{}: not compared: compiled for {}, here is {}", one.path,
                                         one.machine, machine));
    } else if (Sha256Hex(found->second.code_object) != one.sha256) {
      report.different.push_back(one.path);
    } else {
      ++report.equal;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RebuildReport> RebuildBundle(Context& context, const LocalFlags& flags,
                                            const BundleFiles& files) {
  FETTLE_ASSIGN_OR_RETURN(const LoadedBundle loaded, LoadBundle(files));
  RebuildReport report;
  bool gpu = false, cpu = false;
  for (const std::string& target : loaded.model.targets) {
    const absl::StatusOr<Target> found = FindTarget(target);
    (found.ok() && found->vendor == Vendor::kCpu ? cpu : gpu) = true;
  }
  std::string machine;
  if (cpu) {
    FETTLE_ASSIGN_OR_RETURN(const LocalLab lab, LocalLab::Open(flags));
    for (const DeviceInfo& device : lab.runner->devices()) {
      if (device.target.vendor == Vendor::kCpu) machine = device.model;
    }
  }
  // No cache: an entry of it would be compared with itself.
  const Toolchains toolchains = Toolchains::Find("", gpu);
  for (const BundleKernel& kernel : loaded.model.kernels) {
    std::set<std::string> targets;
    for (const BundleBuild& build : loaded.model.builds) {
      if (build.kernel == kernel.id) targets.insert(build.target);
    }
    for (const std::string& target : targets) {
      context.terminal.Status(fmt::format("compiling {} for {}", kernel.id, target));
      FETTLE_RETURN_IF_ERROR(
          RebuildKernel(loaded.model, kernel, target, machine, toolchains, context.stop, report));
    }
  }
  context.terminal.Status("");
  return report;
}

}  // namespace fettle
