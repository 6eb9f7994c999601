// SPDX-License-Identifier: Apache-2.0
#include "worker/unit_builds.h"

#include <future>

#include <fmt/format.h>

#include "core/status_macros.h"
#include "worker/toolchains.h"

namespace fettle {
namespace {

BuildRecord RecordOf(const std::string& key, const CompileRequest& request,
                     const CompileResult& result) {
  BuildRecord record;
  record.key = key;
  record.entries = request.entries;
  record.symbols = result.symbols;
  record.compiler = result.compiler;
  record.cache_hit = result.cache_hit;
  record.elapsed_ns = result.elapsed.count();
  record.log = result.log;
  record.diagnostics = nlohmann::json::array();
  for (const Diagnostic& diagnostic : result.diagnostics) {
    record.diagnostics.push_back({{"file", diagnostic.file},
                                  {"line", diagnostic.line},
                                  {"column", diagnostic.column},
                                  {"severity", diagnostic.severity},
                                  {"text", diagnostic.text}});
  }
  record.facts = nlohmann::json::object();
  return record;
}

struct Compiled {
  Build build;
  bool accepted = false;
};

absl::StatusOr<Compiled> CompileOne(const BuildContext& context, const CompileRequest& request,
                                    const std::string& key) {
  const LaneGate::Ticket ticket = context.gate->EnterCompile(context.stop);
  if (!ticket) return absl::CancelledError("the unit was cancelled before it was compiled");
  const std::string cache_key =
      context.ahead == nullptr ? "" : CompileKey(*context.compiler, request);
  if (context.ahead != nullptr) context.ahead->Fetch(cache_key);
  FETTLE_ASSIGN_OR_RETURN(CompileResult result, context.compiler->Compile(request, context.stop));
  if (context.ahead != nullptr && context.keep) context.ahead->Keep(cache_key, result);
  Compiled compiled;
  compiled.accepted = result.accepted;
  compiled.build.key = key;
  compiled.build.record = RecordOf(key, request, result);
  if (!result.accepted) return compiled;
  if (result.symbols.size() != request.entries.size()) {
    return absl::InternalError(fmt::format("compiler {} gave {} symbols for {} entries",
                                           result.compiler, result.symbols.size(),
                                           request.entries.size()));
  }
  for (std::size_t i = 0; i < request.entries.size(); ++i) {
    compiled.build.symbols[request.entries[i]] = result.symbols[i];
  }
  if (context.target.vendor != Vendor::kCpu) {
    // Without facts the build is as good: they explain, and decide nothing.
    absl::StatusOr<nlohmann::json> facts = FactsOf(result.code_object, context.target);
    if (facts.ok()) compiled.build.record.facts = *std::move(facts);
  }
  compiled.build.code_object = std::move(result.code_object);
  return compiled;
}

CompileRequest RequestFor(const BuildContext& context, const KernelSpec& kernel, CompileMode mode,
                          int lanes, const Task::BuildInputs& inputs) {
  CompileRequest request;
  request.target = context.target;
  request.dialect = kernel.dialect;
  request.mode = mode;
  request.lanes = lanes;
  request.source_name = kernel.source_name;
  request.source = kernel.source;
  request.headers = kernel.headers;
  request.macros = inputs.macros;
  request.entries = inputs.entries;
  return request;
}

}  // namespace

absl::StatusOr<BuiltKernel> BuildKernel(const BuildContext& context, const KernelUnderTest& kernel,
                                        const std::vector<BoundCase>& cases, CompileMode mode,
                                        int lanes) {
  BuiltKernel built{.kernel = kernel, .mode = mode, .lanes = lanes};
  std::map<std::string, Task::BuildInputs> wanted;
  for (const BoundCase& bound_case : cases) {
    FETTLE_ASSIGN_OR_RETURN(
        Task::BuildInputs inputs,
        context.task->BuildInputsFor(kernel.kernel, kernel.values, bound_case, context.target));
    if (inputs.entries.empty()) continue;  // Nothing is launched for this case.
    wanted.try_emplace(inputs.key, std::move(inputs));
  }
  std::vector<std::future<absl::StatusOr<Compiled>>> running;
  for (const auto& [key, inputs] : wanted) {
    running.push_back(std::async(std::launch::async, CompileOne, std::cref(context),
                                 RequestFor(context, kernel.kernel, mode, lanes, inputs), key));
  }
  absl::Status failed;
  for (auto& one : running) {
    absl::StatusOr<Compiled> compiled = one.get();  // All of them: they refer to `context`.
    if (!compiled.ok()) {
      failed.Update(compiled.status());
      continue;
    }
    built.compile_ns += compiled->build.record.elapsed_ns;
    if (!compiled->accepted && !built.rejected) built.rejected = compiled->build.record;
    if (compiled->accepted) {
      const std::string key = compiled->build.key;
      built.builds.emplace(key, std::move(compiled->build));
    }
  }
  FETTLE_RETURN_IF_ERROR(failed);
  return built;
}

absl::StatusOr<const Build*> FindBuild(const BuildContext& context, const BuiltKernel& built,
                                       const BoundCase& bound_case) {
  FETTLE_ASSIGN_OR_RETURN(const Task::BuildInputs inputs,
                          context.task->BuildInputsFor(built.kernel.kernel, built.kernel.values,
                                                       bound_case, context.target));
  if (const auto build = built.builds.find(inputs.key); build != built.builds.end()) {
    return &build->second;
  }
  // A case that launches nothing has no build; any module will do.
  if (inputs.entries.empty() && !built.builds.empty()) return &built.builds.begin()->second;
  return absl::InternalError(
      fmt::format("case {} has no build of {}", bound_case.label, built.kernel.digest));
}

absl::StatusOr<RunnableKernel> MakeRunnable(const BuildContext& context, BuiltKernel& built,
                                            const BoundCase& bound_case, RunnerSession& session) {
  RunnableKernel runnable;
  FETTLE_ASSIGN_OR_RETURN(
      runnable.plan,
      context.task->BindPlan(built.kernel.kernel, built.kernel.values, bound_case, context.target));
  FETTLE_ASSIGN_OR_RETURN(const Build* const build, FindBuild(context, built, bound_case));
  const Build& chosen = *build;
  if (const auto module = built.modules.find(chosen.key); module != built.modules.end()) {
    runnable.module = module->second;
  } else {
    std::vector<std::string> symbols;
    for (const auto& [entry, symbol] : chosen.symbols) symbols.push_back(symbol);
    FETTLE_ASSIGN_OR_RETURN(runnable.module, session.LoadModule(chosen.code_object, symbols));
    built.modules[chosen.key] = runnable.module;
  }
  runnable.symbols = chosen.symbols;
  return runnable;
}

}  // namespace fettle
