// SPDX-License-Identifier: Apache-2.0
#include "core/task.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/digest.h"
#include "core/status_macros.h"
#include "core/task_impl.h"
#include "core/task_parse.h"
#include "core/text.h"

namespace fettle {
namespace {

// Seeds with which data-dependent cases must satisfy `valid`.
constexpr std::uint64_t kTrialSeeds = 4;

absl::Status FirstProblem(const std::vector<TaskProblem>& problems) {
  std::string text = FormatProblems({problems.front()});
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (problems.size() > 1) text += fmt::format(" (and {} more)", problems.size() - 1);
  return absl::InvalidArgumentError(text.substr(0, 1000));
}

// A target that takes everything: what is checked with it depends on no device.
Target AnyTarget() {
  Target target;
  target.name = "any target";
  target.lds = target.lds_static = std::int64_t{1} << 40;
  target.cus = 64;
  target.registers = 65536;
  target.cache = std::int64_t{1} << 25;
  return target;
}

bool GuardsHold(const KernelSpec& kernel, const BoundCase& bound_case) {
  const ExprScope scope = ScopeOf(bound_case);
  for (const Expr& guard : kernel.guards) {
    const auto holds = guard.Evaluate(scope);
    if (!holds.ok() || *holds == 0) return false;
  }
  return true;
}

// Stored outputs must be there for every case.
void CheckStored(const TaskModel& model, const TaskFiles& files, const BoundCase& bound_case,
                 const CaseDecl& declared, Problems& problems) {
  std::map<std::string, std::string> patterns;
  for (const ArgDecl& arg : model.args) {
    const ArgDecl& tensor = arg.each != nullptr ? *arg.each : arg;
    if (tensor.role != Role::kOut && tensor.role != Role::kInOut) continue;
    if (patterns.size() < model.reference.files.size()) {
      patterns.emplace(arg.name, model.reference.files[patterns.size()]);
    }
  }
  for (const BoundTensor& tensor : bound_case.tensors) {
    if (tensor.role != Role::kOut && tensor.role != Role::kInOut) continue;
    const std::string path =
        StoredOutputPath(patterns[tensor.name], bound_case.label, tensor.member);
    if (files.contains(path)) continue;
    problems.Add(
        declared.line, declared.column, "reference.npy",
        fmt::format("the case {} needs the stored output '{}', which the task folder lacks",
                    bound_case.label, path));
  }
}

// Binds every case and the baseline's plan for it, and reports what fails at the case's place.
void CheckCases(const TaskModel& model, const TaskFiles& files, Problems& problems) {
  for (const CaseSet set : {CaseSet::kTimed, CaseSet::kChecked}) {
    const auto& cases = set == CaseSet::kTimed ? model.timed : model.checked;
    bool supported = false;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const std::string label =
          fmt::format("{}/{}", set == CaseSet::kTimed ? "timed" : "checked", i);
      const std::string field = fmt::format("cases.{}[{}]", label.substr(0, label.find('/')), i);
      for (std::uint64_t seed = 0; seed < kTrialSeeds; ++seed) {
        const auto bound = BindCase(model, files, cases[i], set, label, seed, i);
        if (!bound.ok()) {
          problems.Add(cases[i].line, cases[i].column, field,
                       fmt::format("{}: {}", field, std::string(bound.status().message())));
          break;
        }
        if (seed == 0 && model.reference.kind == "npy") {
          CheckStored(model, files, *bound, cases[i], problems);
        }
        if (!GuardsHold(model.baseline, *bound)) break;
        supported = true;
        const auto plan = BindLaunches(model, model.baseline, model.baseline.values, *bound,
                                       AnyTarget(), /*check_limits=*/false);
        if (!plan.ok()) {
          problems.Add(cases[i].line, cases[i].column, "baseline.launches",
                       fmt::format("the baseline's plan fails for {}: {}", field,
                                   std::string(plan.status().message())));
          break;
        }
        const bool launches = std::any_of(
            plan->steps.begin(), plan->steps.end(),
            [](const BoundStep& step) { return step.kind == BoundStep::Kind::kKernel; });
        if (set == CaseSet::kTimed && !launches) {
          problems.Add(cases[i].line, cases[i].column, "baseline.launches",
                       fmt::format("the baseline launches no kernel for {}, where the grid of each "
                                   "is 0 (or `when` is); correct the grid or leave the case out",
                                   field));
          break;
        }
      }
    }
    if (!supported && !cases.empty() && problems.count() == 0) {
      problems.Add(cases.front().line, cases.front().column, "baseline.requires",
                   fmt::format("the baseline supports none of the {} cases; widen 'requires'",
                               set == CaseSet::kTimed ? "timed" : "checked"));
    }
  }
}

// Messages about held-out cases must not carry their sizes: only the place remains.
absl::Status HideHeldOut(const BoundCase& bound_case, const absl::Status& status) {
  if (status.ok() || bound_case.set != CaseSet::kHeldOut) return status;
  const std::string message(status.message());
  return absl::InvalidArgumentError(
      fmt::format("{}: fails for a held-out case; check limits, offsets and 'requires'",
                  message.substr(0, message.find(": "))));
}

}  // namespace

std::string FormatProblems(const std::vector<TaskProblem>& problems) {
  std::string out;
  for (const TaskProblem& problem : problems) {
    out += problem.file;
    if (problem.line > 0) out += fmt::format(":{}:{}", problem.line, problem.column);
    out += ": " + problem.message + "\n";
  }
  return out;
}

std::string StoredOutputPath(std::string_view pattern, std::string_view case_label,
                             std::int64_t member) {
  std::string label(case_label);
  std::replace(label.begin(), label.end(), '/', '_');
  std::string out(pattern);
  for (const auto& [key, value] : {std::pair<std::string, std::string>{"{case}", label},
                                   {"{member}", std::to_string(member)}}) {
    const std::size_t at = out.find(key);
    if (at != std::string::npos) out.replace(at, key.size(), value);
  }
  return out;
}

// Whether the file is bytes by nature: stored arrays and objects.
bool IsBinary(std::string_view name) {
  for (const char* ending : {".npy", ".npz", ".co", ".hsaco", ".cubin", ".fatbin", ".bin"}) {
    if (name.ends_with(ending)) return true;
  }
  return false;
}

// Names and texts travel as UTF-8, to the compiler as well as to whoever reads its messages.
void CheckEncoding(const TaskFiles& files, std::vector<TaskProblem>& problems) {
  for (const auto& [name, text] : files) {
    if (!IsUtf8(name)) {
      problems.push_back(
          {.file = ValidUtf8(name), .message = "the file's name is not UTF-8; rename it"});
      continue;
    }
    if (IsBinary(name)) continue;
    const std::size_t at = ValidUtf8Prefix(text);
    if (at == text.size()) continue;
    const auto before = std::string_view(text).substr(0, at);
    const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0.
    problems.push_back(
        {.file = name,
         .line = 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n')),
         .column = 1 + static_cast<int>(at - line_start),
         .message = fmt::format("byte 0x{:02x} is not UTF-8; save the file as UTF-8",
                                static_cast<unsigned char>(text[at]))});
  }
}

Task::Task(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Task::~Task() = default;

absl::StatusOr<std::shared_ptr<const Task>> Task::Parse(TaskFiles files,
                                                        std::vector<TaskProblem>* problems) {
  std::vector<TaskProblem> own;
  if (problems == nullptr) problems = &own;
  problems->clear();
  Problems collected("task.yaml", problems);
  auto impl = std::make_unique<Impl>();
  const auto text = files.find("task.yaml");
  if (text == files.end()) {
    collected.Add(0, 0, "", "the task folder has no file 'task.yaml'; 'fettle init' writes one");
    return FirstProblem(*problems);
  }
  CheckEncoding(files, *problems);
  if (!problems->empty()) return FirstProblem(*problems);
  const std::optional<Doc> doc = DocFromYaml(text->second, collected);
  if (doc && collected.count() == 0) {
    impl->model = ParseTaskDoc(*doc, files, collected);
    if (collected.count() == 0) CheckCases(impl->model, files, collected);
  }
  if (collected.count() > 0) {
    std::stable_sort(problems->begin(), problems->end(), [](const auto& a, const auto& b) {
      return std::pair(a.line, a.column) < std::pair(b.line, b.column);
    });
    return FirstProblem(*problems);
  }
  impl->files = std::move(files);
  impl->digest = Sha256Hex(CanonicalJson(CanonicalTask(impl->model, impl->files)));
  return std::shared_ptr<const Task>(new Task(std::move(impl)));
}

const std::string& Task::name() const { return impl_->model.name; }
const std::string& Task::summary() const { return impl_->model.summary; }
const std::string& Task::license() const { return impl_->model.license; }
const std::string& Task::digest() const { return impl_->digest; }
const TaskFiles& Task::files() const { return impl_->files; }
const KernelSpec& Task::baseline() const { return impl_->model.baseline; }
const TaskModel& Task::model() const { return impl_->model; }
const Task::ReferenceSpec& Task::reference() const { return impl_->model.reference; }
const std::vector<Task::CheckerSpec>& Task::checkers() const { return impl_->model.checkers; }
int Task::held_out_count() const { return impl_->model.held_out; }

absl::StatusOr<std::vector<BoundCase>> Task::BindCases(CaseSet set, std::uint64_t seed) const {
  if (set == CaseSet::kHeldOut) {
    return absl::InvalidArgumentError("bind cases: held-out cases are drawn, not declared");
  }
  const auto& cases = set == CaseSet::kTimed ? model().timed : model().checked;
  std::vector<BoundCase> out;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string label = fmt::format("{}/{}", set == CaseSet::kTimed ? "timed" : "checked", i);
    auto bound = BindCase(model(), files(), cases[i], set, label, seed, i);
    if (!bound.ok()) {
      return absl::InvalidArgumentError(
          fmt::format("bind case {}: {}", label, std::string(bound.status().message())));
    }
    out.push_back(*std::move(bound));
  }
  return out;
}

absl::StatusOr<std::vector<BoundCase>> Task::BindCases(CaseSet set, std::uint64_t seed,
                                                       const Target& target) const {
  FETTLE_ASSIGN_OR_RETURN(std::vector<BoundCase> all, BindCases(set, seed));
  const auto& declared = set == CaseSet::kTimed ? model().timed : model().checked;
  const auto other = target.vendor == Vendor::kCpu ? CaseDecl::On::kGpu : CaseDecl::On::kCpu;
  std::vector<BoundCase> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (declared[i].on != other) out.push_back(std::move(all[i]));
  }
  return out;
}

absl::Status CheckValues(const KernelSpec& kernel, const TunableValues& values) {
  for (const Tunable& tunable : kernel.tunables) {
    if (!values.contains(tunable.name)) {
      return absl::InvalidArgumentError(fmt::format("the tunable '{}' has no value", tunable.name));
    }
  }
  if (values.size() == kernel.tunables.size()) return absl::OkStatus();
  for (const auto& [name, value] : values) {
    const bool known = std::any_of(kernel.tunables.begin(), kernel.tunables.end(),
                                   [&](const Tunable& tunable) { return tunable.name == name; });
    if (!known) return absl::InvalidArgumentError(fmt::format("there is no tunable '{}'", name));
  }
  return absl::OkStatus();
}

absl::StatusOr<BoundPlan> Task::BindPlan(const KernelSpec& kernel, const TunableValues& values,
                                         const BoundCase& bound_case, const Target& target) const {
  FETTLE_RETURN_IF_ERROR(CheckValues(kernel, values));
  auto plan = BindLaunches(model(), kernel, values, bound_case, target, /*check_limits=*/true);
  if (!plan.ok()) return HideHeldOut(bound_case, plan.status());
  return plan;
}

absl::StatusOr<bool> Task::Supports(const KernelSpec& kernel, const BoundCase& bound_case) const {
  const ExprScope scope = ScopeOf(bound_case);
  for (const Expr& guard : kernel.guards) {
    const auto holds = guard.Evaluate(scope);
    if (!holds.ok()) return HideHeldOut(bound_case, holds.status());
    if (*holds == 0) return false;
  }
  return true;
}

absl::StatusOr<bool> Task::Admits(const KernelSpec& kernel, const TunableValues& values,
                                  const Target& target, const BoundCase* bound_case) const {
  FETTLE_RETURN_IF_ERROR(CheckValues(kernel, values));
  ExprScope scope;
  if (bound_case != nullptr) scope = ScopeOf(*bound_case);
  AddTunables(values, scope);
  AddTarget(target, scope);
  for (const Expr& constraint : kernel.constraints) {
    if (bound_case == nullptr) {
      const std::set<std::string> names = constraint.Names();
      const bool free = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
        return scope.Find(name) != nullptr;
      });
      if (!free) continue;  // Over dims: decided per case.
    }
    const auto holds = constraint.Evaluate(scope);
    if (!holds.ok()) {
      return bound_case == nullptr ? holds.status() : HideHeldOut(*bound_case, holds.status());
    }
    if (*holds == 0) return false;
  }
  return true;
}

absl::Status Task::RefineWork(const std::map<std::string, std::int64_t>& unique,
                              BoundCase& bound_case) const {
  return BindWork(model(), unique, bound_case);
}

absl::StatusOr<KernelSpec> Task::ParseKernelSpec(const nlohmann::json& block,
                                                 std::vector<TaskProblem>* problems) const {
  std::vector<TaskProblem> own;
  if (problems == nullptr) problems = &own;
  problems->clear();
  Problems collected("kernel", problems);
  const Doc doc = DocFromJson(block);
  KernelSpec kernel =
      ParseKernelBlock(doc, "", model(), files(), /*inline_source=*/true, collected);
  if (collected.count() > 0) return FirstProblem(*problems);
  bool supported = false;
  absl::StatusOr<std::vector<BoundCase>> timed = BindCases(CaseSet::kTimed, 0);
  if (!timed.ok()) return timed.status();
  for (const BoundCase& bound_case : *timed) supported |= GuardsHold(kernel, bound_case);
  if (!supported) {
    collected.Add(0, 0, "requires",
                  "requires: no timed case of the task satisfies it; widen it, since a variant "
                  "counts by the timed cases it supports");
    return FirstProblem(*problems);
  }
  return kernel;
}

}  // namespace fettle
