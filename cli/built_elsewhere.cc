// SPDX-License-Identifier: Apache-2.0
#include "cli/built_elsewhere.h"

#include <fmt/format.h>

#include "core/status_macros.h"
#include "core/target.h"
#include "worker/toolchains.h"
#include "worker/unit_builds.h"

namespace fettle {

absl::StatusOr<BuiltElsewhere> BuildElsewhere(const Task& task, const TunableValues& values,
                                              const std::string& target,
                                              const std::string& cache_dir) {
  BuildContext context;
  FETTLE_ASSIGN_OR_RETURN(context.target, FindTarget(target));
  const Toolchains toolchains = Toolchains::Find(cache_dir, /*gpu=*/true);
  FETTLE_ASSIGN_OR_RETURN(context.compiler, toolchains.For(context.target));
  LaneGate gate(1);
  context.gate = &gate;
  context.task = &task;
  FETTLE_ASSIGN_OR_RETURN(const std::vector<BoundCase> cases,
                          task.BindCases(CaseSet::kTimed, 1, context.target));
  KernelUnderTest kernel;
  kernel.kernel = task.baseline();
  kernel.values = values;
  FETTLE_ASSIGN_OR_RETURN(const BuiltKernel built,
                          BuildKernel(context, kernel, cases, CompileMode::kFast, 32));
  if (built.rejected) {
    return absl::FailedPreconditionError(
        fmt::format("compile for {}: {}", target, built.rejected->log.substr(0, 300)));
  }
  BuiltElsewhere result{.target = target, .compiler = {}, .builds = nlohmann::json::array()};
  for (const auto& [key, build] : built.builds) {
    result.compiler = build.record.compiler;
    result.builds.push_back({{"entries", build.record.entries}, {"facts", build.record.facts}});
  }
  return result;
}

}  // namespace fettle
