// SPDX-License-Identifier: Apache-2.0
#include "tests/cheats/naive.h"

#include <cstdlib>

#include <fmt/format.h>

#include "compiler/child_process.h"
#include "compiler/files.h"
#include "core/bound_json.h"
#include "core/status_macros.h"
#include "worker/lane_gate.h"
#include "worker/unit_builds.h"

namespace fettle {
namespace {

using nlohmann::json;

// A kernel for the harness; `note` says why there is none.
struct Prepared {
  json spec;
  std::string note;
};

absl::StatusOr<Prepared> Prepare(const BuildContext& context, const KernelSpec& kernel,
                                 const BoundCase& timed, const BoundCase& checked,
                                 const std::string& path) {
  const KernelUnderTest under_test{.digest = "", .kernel = kernel, .values = kernel.values};
  auto built = BuildKernel(context, under_test, {timed, checked}, CompileMode::kFast,
                           kernel.lanes == 64 ? 64 : 32);
  if (!built.ok()) return Prepared{.spec = {}, .note = std::string(built.status().message())};
  if (built->rejected || built->builds.empty())
    return Prepared{.spec = {}, .note = "does not compile"};
  const auto timed_plan = context.task->BindPlan(kernel, kernel.values, timed, context.target);
  const auto checked_plan = context.task->BindPlan(kernel, kernel.values, checked, context.target);
  if (!timed_plan.ok() || !checked_plan.ok())
    return Prepared{.spec = {}, .note = "does not launch"};
  const Build& build = built->builds.begin()->second;
  FETTLE_RETURN_IF_ERROR(WriteFile(path, build.code_object));
  return Prepared{.spec = {{"object", path},
                           {"symbols", build.symbols},
                           {"timed", ToJson(*timed_plan)},
                           {"checked", ToJson(*checked_plan)}},
                  .note = ""};
}

}  // namespace

absl::StatusOr<NaiveJudge> NaiveJudge::Create(Options options) {
  auto toolchains = std::make_shared<Toolchains>(
      Toolchains::Find(options.cache_dir, options.target.vendor != Vendor::kCpu));
  FETTLE_RETURN_IF_ERROR(toolchains->For(options.target).status());
  return NaiveJudge(std::move(options), std::move(toolchains));
}

// What a compiler that sees the whole machine puts into its output, and so into an error or a
// kernel: the first line of the file that the entry names, or its own `marker`.
absl::StatusOr<NaiveVerdict> NaiveJudge::Preprocess(const BankEntry& entry) {
  FETTLE_ASSIGN_OR_RETURN(const auto folder, TemporaryFolder::Create(""));
  const std::string path = folder.path() + "/" + entry.source_name;
  FETTLE_RETURN_IF_ERROR(WriteFile(path, entry.source));
  std::string marker = entry.naive->marker;
  if (marker.empty()) {
    FETTLE_ASSIGN_OR_RETURN(marker, ReadFile(entry.naive->file));
    marker = marker.substr(0, marker.find('\n'));
  }
  const std::string compiler = FindOnPath("g++", {"/usr/bin", "/usr/local/bin"});
  if (compiler.empty()) return absl::UnavailableError("the naive harness needs g++ in PATH");
  const char* search = std::getenv("PATH");
  FETTLE_ASSIGN_OR_RETURN(
      const ChildResult ran,
      RunChild({.argv = {compiler, "-E", "-x", "c++", path},
                .environment = {std::string("PATH=") + (search != nullptr ? search : "/usr/bin")},
                .limits = {.wall = std::chrono::seconds(20)}},
               {}));
  const bool found = !marker.empty() && ran.output.find(marker) != std::string::npos;
  return NaiveVerdict{.correct = found,
                      .note = found ? "the compiler's output holds it" : "nothing found"};
}

absl::StatusOr<NaiveVerdict> NaiveJudge::Judge(const BankEntry& entry) {
  const std::string habit = entry.naive ? entry.naive->habit : "";
  if (habit == "plain_compiler") return Preprocess(entry);
  FETTLE_ASSIGN_OR_RETURN(const BankKernel parsed, ParseBankEntry(options_.folder, entry));
  if (!parsed.kernel) return NaiveVerdict{.note = parsed.problem};
  FETTLE_ASSIGN_OR_RETURN(KernelCompiler* const compiler, toolchains_->For(options_.target));
  LaneGate gate(1);
  const BuildContext context{.task = parsed.task.get(),
                             .target = options_.target,
                             .compiler = compiler,
                             .gate = &gate,
                             .stop = {}};
  FETTLE_ASSIGN_OR_RETURN(const auto timed,
                          parsed.task->BindCases(CaseSet::kTimed, 1, options_.target));
  FETTLE_ASSIGN_OR_RETURN(const auto small,
                          parsed.task->BindCases(CaseSet::kChecked, 1, options_.target));
  const BoundCase& checked = habit == "small" ? small.front() : timed.front();
  FETTLE_ASSIGN_OR_RETURN(const auto folder, TemporaryFolder::Create(""));
  FETTLE_ASSIGN_OR_RETURN(const Prepared a, Prepare(context, parsed.task->baseline(), timed.front(),
                                                    checked, folder.path() + "/a"));
  if (!a.note.empty()) return absl::InternalError("the baseline: " + a.note);
  FETTLE_ASSIGN_OR_RETURN(const Prepared b, Prepare(context, *parsed.kernel, timed.front(), checked,
                                                    folder.path() + "/b"));
  if (!b.note.empty()) return NaiveVerdict{.note = b.note};
  const json request = {
      {"device", options_.device_id}, {"habit", habit}, {"timed", ToJson(timed.front())},
      {"checked", ToJson(checked)},   {"a", a.spec},    {"b", b.spec}};
  const std::string path = folder.path() + "/request.json";
  FETTLE_RETURN_IF_ERROR(WriteFile(path, request.dump()));
  FETTLE_ASSIGN_OR_RETURN(
      const ChildResult ran,
      RunChild({.argv = {options_.harness, path}, .limits = {.wall = std::chrono::seconds(60)}},
               {}));
  const std::size_t line = ran.output.rfind("{\"correct\"");
  const json answer =
      line == std::string::npos ? json() : json::parse(ran.output.substr(line), nullptr, false);
  if (!answer.is_object()) {
    const bool believed = habit == "exit_code" && ran.ok();
    return NaiveVerdict{.correct = believed,
                        .note = fmt::format("{}: {}", ran.Ending(), ran.output.substr(0, 200))};
  }
  return NaiveVerdict{.correct = answer.at("correct").get<bool>(),
                      .ratio = answer.at("ratio").get<double>()};
}

}  // namespace fettle
