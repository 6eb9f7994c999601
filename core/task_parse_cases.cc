// SPDX-License-Identifier: Apache-2.0
// Cases, the reference, tolerances, work, contract and rivals.

#include <algorithm>

#include <fmt/format.h>

#include "core/task_parse.h"

namespace fettle {
namespace {

constexpr int kMaxCases = 256, kMaxHeldOut = 64;
constexpr std::size_t kMaxSpecialized = 16;

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// A map from a doc whose keys are free, each given to `each(entry)`.
template <typename F>
void ForEntries(const Doc& doc, const std::string& path, Problems& problems, F each) {
  Fields fields(doc, path, problems);
  for (const DocEntry& entry : doc.entries) each(entry);
}

CaseValue ReadCaseList(const Doc& doc, const std::string& path, const TaskFiles& files,
                       Problems& problems) {
  CaseValue out;
  if (doc.kind == Doc::Kind::kList) {
    out.kind = CaseValue::Kind::kList;
    for (const Doc& item : doc.items) {
      if (const auto value = ReadInteger(item, path, problems)) out.list.push_back(*value);
    }
    return out;
  }
  Fields fields(doc, path, problems);
  if (const Doc* uniform = fields.Find("uniform")) {
    out.kind = CaseValue::Kind::kUniform;
    const auto* items = ReadList(*uniform, path + ".uniform", problems);
    if (items != nullptr && items->size() == 2) {
      out.lo = ReadInteger((*items)[0], path + ".uniform", problems).value_or(0);
      out.hi = ReadInteger((*items)[1], path + ".uniform", problems).value_or(0);
      if (out.lo > out.hi) {
        problems.Add(*uniform, path, fmt::format("{}: {} is above {}", path, out.lo, out.hi));
      }
    } else if (items != nullptr) {
      problems.Add(*uniform, path, path + ".uniform needs two numbers, [lo, hi], both included");
    }
  } else if (const Doc* file = fields.Need("file",
                                           "give a number, a list, {uniform: [lo, hi]} or "
                                           "{file: lens.npy}")) {
    out.kind = CaseValue::Kind::kFile;
    out.file = ReadFileName(*file, path + ".file", files, problems).value_or("");
  }
  fields.Finish();
  return out;
}

void ReadCaseDim(const DocEntry& entry, const DimDecl& dim, const std::string& path,
                 const TaskFiles& files, CaseDecl& out, Problems& problems) {
  if (dim.let) {
    problems.Add(entry.line, entry.column, path,
                 fmt::format("'{}' is derived ('let'); a case may not give it", dim.name));
    return;
  }
  CaseValue value;
  if (entry.value.kind == Doc::Kind::kScalar) {
    const auto number = ReadInteger(entry.value, path, problems);
    if (!number) return;
    value.number = *number;
  } else if (!dim.is_list) {
    problems.Add(entry.value, path, fmt::format("{} must be a whole number", path));
    return;
  } else {
    value = ReadCaseList(entry.value, path, files, problems);
  }
  out.dims[dim.name] = std::move(value);
}

void ReadCaseType(const DocEntry& entry, const TypeFamily& family, const std::string& path,
                  CaseDecl& out, Problems& problems) {
  const auto dtype = ReadDType(entry.value, path, problems);
  if (!dtype) return;
  if (std::find(family.dtypes.begin(), family.dtypes.end(), *dtype) == family.dtypes.end()) {
    problems.Add(
        entry.value, path,
        fmt::format("{}: {} is not among the dtypes of {}", path, DTypeName(*dtype), family.name));
    return;
  }
  out.types[family.name] = *dtype;
}

void ReadCaseArg(const DocEntry& entry, const ArgDecl& arg, const std::string& path,
                 const TaskModel& model, const TaskFiles& files, CaseDecl& out,
                 Problems& problems) {
  const ArgDecl& tensor = arg.each != nullptr ? *arg.each : arg;
  if (arg.role == Role::kScalar) {
    if (arg.value_kind != ArgDecl::Value::kPerCase) {
      problems.Add(entry.value, path,
                   fmt::format("the scalar '{}' is fixed; give it 'value: per_case' to set it here",
                               arg.name));
      return;
    }
    if (const auto value = ReadReal(entry.value, path, problems)) out.scalars[arg.name] = *value;
    return;
  }
  if (tensor.role == Role::kOut || tensor.role == Role::kNone) {
    problems.Add(entry.value, path, fmt::format("'{}' has no fill to override", arg.name));
    return;
  }
  out.fills[arg.name] = ReadFill(entry.value, path, tensor, model, files, problems);
}

// Names that a case may hold, for suggestions.
std::set<std::string> CaseNames(const TaskModel& model) {
  std::set<std::string> names = DimNames(model);
  for (const TypeFamily& family : model.types) names.insert(family.name);
  for (const ArgDecl& arg : model.args) names.insert(arg.name);
  names.insert("weight");
  names.insert("for");
  return names;
}

void CheckComplete(const Doc& doc, const std::string& path, const TaskModel& model, CaseDecl& out,
                   Problems& problems) {
  for (const DimDecl& dim : model.dims) {
    if (dim.let || out.dims.contains(dim.name) || doc.Find(dim.name) != nullptr) continue;
    problems.Add(
        doc, path,
        fmt::format("{} does not give the dim '{}'; add '{}: ...'", path, dim.name, dim.name));
  }
  for (const TypeFamily& family : model.types) {
    if (out.types.contains(family.name) || doc.Find(family.name) != nullptr) continue;
    if (family.dtypes.size() == 1) {
      out.types[family.name] = family.dtypes.front();
      continue;
    }
    problems.Add(doc, path,
                 fmt::format("{} does not pick a dtype for '{}'; add '{}: ...'", path, family.name,
                             family.name));
  }
  for (const ArgDecl& arg : model.args) {
    if (arg.value_kind != ArgDecl::Value::kPerCase || !arg.from.empty() || arg.from_uniform)
      continue;
    if (out.scalars.contains(arg.name) || doc.Find(arg.name) != nullptr) continue;
    problems.Add(doc, path,
                 fmt::format("{} does not give the scalar '{}', which is 'per_case' "
                             "without 'from'",
                             path, arg.name));
  }
}

CaseDecl ReadCase(const Doc& doc, const std::string& path, bool timed, const TaskModel& model,
                  const TaskFiles& files, Problems& problems) {
  CaseDecl out;
  out.line = doc.line;
  out.column = doc.column;
  Fields fields(doc, path, problems);
  if (!fields.valid()) return out;
  for (const DocEntry& entry : doc.entries) {
    const std::string field = path + "." + entry.key;
    if (const DimDecl* dim = model.FindDim(entry.key)) {
      ReadCaseDim(entry, *dim, field, files, out, problems);
    } else if (const TypeFamily* family = model.FindType(entry.key)) {
      ReadCaseType(entry, *family, field, out, problems);
    } else if (const ArgDecl* arg = model.FindArg(entry.key)) {
      ReadCaseArg(entry, *arg, field, model, files, out, problems);
    } else if (entry.key == "weight") {
      const auto weight = ReadReal(entry.value, field, problems);
      out.weight = weight.value_or(1);
      if (weight && (*weight <= 0 || !timed)) {
        problems.Add(entry.value, field,
                     timed ? "a weight must be positive" : "only timed cases have a weight");
      }
    } else if (entry.key == "for") {
      if (entry.value.text != "cpu" && entry.value.text != "gpu") {
        problems.Add(entry.value, field,
                     "write 'for: cpu' or 'for: gpu'; without it every target runs the case");
      }
      out.on = entry.value.text == "cpu" ? CaseDecl::On::kCpu : CaseDecl::On::kGpu;
    } else {
      problems.Add(
          entry.line, entry.column, field,
          fmt::format("unknown field '{}'; {}", entry.key, Suggest(entry.key, CaseNames(model))));
    }
  }
  CheckComplete(doc, path, model, out, problems);
  return out;
}

void ReadCaseSet(const Doc& doc, const std::string& path, bool timed, TaskModel& model,
                 const TaskFiles& files, Problems& problems) {
  const auto* items = ReadList(doc, path, problems);
  if (items == nullptr) return;
  if (items->empty() || items->size() > kMaxCases) {
    problems.Add(doc, path, fmt::format("{} needs between 1 and {} cases", path, kMaxCases));
    return;
  }
  std::vector<CaseDecl>& cases = timed ? model.timed : model.checked;
  for (std::size_t i = 0; i < items->size(); ++i) {
    cases.push_back(
        ReadCase((*items)[i], fmt::format("{}[{}]", path, i), timed, model, files, problems));
  }
  for (const auto on : {CaseDecl::On::kCpu, CaseDecl::On::kGpu}) {
    const bool any = std::any_of(cases.begin(), cases.end(), [on](const CaseDecl& declared) {
      return declared.on == CaseDecl::On::kAll || declared.on == on;
    });
    if (!any) {
      problems.Add(
          doc, path,
          fmt::format("{} has no case for {} targets; add one, or leave out 'for' in another", path,
                      on == CaseDecl::On::kCpu ? "cpu" : "gpu"));
    }
  }
}

void CheckSpecialized(const Doc& doc, const TaskModel& model, Problems& problems) {
  for (const std::string& dim : model.specialize) {
    std::set<std::int64_t> values;
    for (const auto* cases : {&model.timed, &model.checked}) {
      for (const CaseDecl& entry : *cases) {
        const auto found = entry.dims.find(dim);
        if (found != entry.dims.end()) values.insert(found->second.number);
      }
    }
    if (values.size() > kMaxSpecialized) {
      problems.Add(doc, "specialize",
                   fmt::format("the cases give '{}' {} distinct values; 'specialize' allows {}",
                               dim, values.size(), kMaxSpecialized));
    }
  }
}

// Reads `{source, function}` of a reference or checker, or a bare file name.
void ReadHostFunction(const Doc& doc, const std::string& path, const TaskFiles& files,
                      std::string_view default_function, std::string& source, std::string& function,
                      Problems& problems) {
  if (doc.kind == Doc::Kind::kScalar) {
    source = ReadFileName(doc, path, files, problems).value_or("");
    function = default_function;
    return;
  }
  Fields fields(doc, path, problems);
  if (const Doc* name = fields.Need("source", "name the file with the C++ function")) {
    source = ReadFileName(*name, fields.PathOf("source"), files, problems).value_or("");
  }
  function = default_function;
  if (const Doc* name = fields.Find("function")) {
    function = ReadIdentifier(*name, fields.PathOf("function"), problems).value_or("");
  }
  fields.Find("outputs");
  fields.Finish();
}

std::set<std::string> OutputNames(const TaskModel& model) {
  std::set<std::string> names;
  for (const ArgDecl& arg : model.args) {
    const ArgDecl& tensor = arg.each != nullptr ? *arg.each : arg;
    if (arg.role != Role::kScalar && arg.role != Role::kNone &&
        (tensor.role == Role::kOut || tensor.role == Role::kInOut)) {
      names.insert(arg.name);
    }
  }
  return names;
}

void ReadAuto(const Doc& doc, const std::string& path, const TaskModel& model, ToleranceDecl& out,
              Problems& problems) {
  out.kind = BoundTolerance::Kind::kAuto;
  if (doc.kind == Doc::Kind::kNull) return;
  Fields fields(doc, path, problems);
  if (const Doc* reduce = fields.Find("reduce")) {
    out.reduce = ReadExpr(*reduce, fields.PathOf("reduce"), DimNames(model), "dims", problems)
                     .value_or(Expr::Constant(1));
  }
  const auto dtype = [&](const char* key) -> std::optional<DType> {
    const Doc* found = fields.Find(key);
    if (found == nullptr) return std::nullopt;
    const auto parsed = ReadDType(*found, fields.PathOf(key), problems);
    if (parsed && !IsFloat(*parsed)) {
      problems.Add(*found, fields.PathOf(key), fmt::format("{} must be a floating dtype", key));
    }
    return parsed;
  };
  out.acc = dtype("acc").value_or(DType::kF32);
  out.inner = dtype("inner");
  fields.Finish();
}

void ReadExact(const Doc& doc, const std::string& path, ToleranceDecl& out, Problems& problems) {
  const auto text = ReadChoice(doc, path, {"bits", "values"}, problems);
  out.kind =
      text == "values" ? BoundTolerance::Kind::kExactValues : BoundTolerance::Kind::kExactBits;
  out.raw = text == "bits";
}

void ReadRelative(Fields& fields, ToleranceDecl& out) {
  out.kind = BoundTolerance::Kind::kRelative;
  for (const char* key : {"rtol", "atol"}) {
    const Doc* doc = fields.Find(key);
    if (doc == nullptr) continue;
    const auto value = ReadReal(*doc, fields.PathOf(key), fields.problems());
    if (value && *value < 0) {
      fields.problems().Add(*doc, fields.PathOf(key), "a tolerance cannot be negative");
    }
    (key[0] == 'r' ? out.rtol : out.atol) = value.value_or(0);
  }
}

ToleranceDecl ReadTolerance(const DocEntry& entry, TaskModel& model, const TaskFiles& files,
                            Problems& problems) {
  const std::string path = "tolerance." + entry.key;
  const Doc& doc = entry.value;
  ToleranceDecl out;
  out.output = entry.key;
  if (doc.kind == Doc::Kind::kScalar) {
    const auto text = ReadChoice(doc, path, {"exact", "auto"}, problems);
    if (text == "exact") out.kind = BoundTolerance::Kind::kExactBits;
    return out;
  }
  Fields fields(doc, path, problems);
  if (!fields.valid()) return out;
  const Doc* exact = fields.Find("exact");
  const Doc* automatic = fields.Find("auto");
  const Doc* checker = fields.Find("checker");
  const bool relative = fields.Find("rtol") != nullptr || fields.Find("atol") != nullptr;
  if ((exact != nullptr) + (automatic != nullptr) + (checker != nullptr) + relative != 1) {
    problems.Add(doc, path,
                 fmt::format("{} needs exactly one of auto, exact, rtol/atol, checker", path));
    return out;
  }
  if (exact != nullptr) ReadExact(*exact, path + ".exact", out, problems);
  if (automatic != nullptr) ReadAuto(*automatic, path + ".auto", model, out, problems);
  if (relative) ReadRelative(fields, out);
  if (checker != nullptr) {
    out.kind = BoundTolerance::Kind::kChecker;
    Task::CheckerSpec spec;
    ReadHostFunction(*checker, path + ".checker", files, "check", spec.source, spec.function,
                     problems);
    spec.outputs = {entry.key};
    model.checkers.push_back(std::move(spec));
  }
  fields.Finish();
  return out;
}

// `tolerance: {checker: {source, function, outputs: [a, b]}}`.
void ReadSharedChecker(const Doc& doc, TaskModel& model, const TaskFiles& files,
                       Problems& problems) {
  Task::CheckerSpec spec;
  ReadHostFunction(doc, "tolerance.checker", files, "check", spec.source, spec.function, problems);
  const Doc* outputs = doc.Find("outputs");
  if (outputs == nullptr) {
    problems.Add(doc, "tolerance.checker.outputs", "list the outputs that the checker judges");
    return;
  }
  const auto* items = ReadList(*outputs, "tolerance.checker.outputs", problems);
  if (items == nullptr) return;
  for (const Doc& item : *items) {
    const auto name = ReadIdentifier(item, "tolerance.checker.outputs", problems);
    if (!name) continue;
    if (!OutputNames(model).contains(*name)) {
      problems.Add(
          item, "tolerance.checker.outputs",
          fmt::format("there is no output '{}'; {}", *name, Suggest(*name, OutputNames(model))));
      continue;
    }
    ToleranceDecl tolerance;
    tolerance.output = *name;
    tolerance.kind = BoundTolerance::Kind::kChecker;
    model.tolerances.push_back(std::move(tolerance));
    spec.outputs.push_back(*name);
  }
  model.checkers.push_back(std::move(spec));
}

void CheckTolerances(const Doc& doc, const TaskModel& model, Problems& problems) {
  std::map<std::string, int> seen;
  for (const ToleranceDecl& tolerance : model.tolerances) ++seen[tolerance.output];
  for (const std::string& output : OutputNames(model)) {
    if (seen[output] == 1) continue;
    problems.Add(doc, "tolerance." + output,
                 seen[output] == 0
                     ? fmt::format("the output '{}' has no tolerance; add '{}: exact' or "
                                   "'{}: {{auto: ...}}'",
                                   output, output, output)
                     : fmt::format("the output '{}' has two tolerances; keep one", output));
  }
  for (const ToleranceDecl& tolerance : model.tolerances) {
    const ArgDecl* arg = model.FindArg(tolerance.output);
    if (arg == nullptr || tolerance.kind != BoundTolerance::Kind::kAuto) continue;
    const ArgDecl& tensor = arg->each != nullptr ? *arg->each : *arg;
    if (IsFloatRef(tensor.type, model)) continue;
    problems.Add(
        doc, "tolerance." + tolerance.output,
        fmt::format("'auto' is for floating outputs; write '{}: exact'", tolerance.output));
  }
}

}  // namespace

void ParseReference(const Doc& doc, TaskModel& model, const TaskFiles& files, Problems& problems) {
  const Doc* npy = doc.Find("npy");
  if (npy == nullptr) {
    model.reference.kind = "cxx";
    ReadHostFunction(doc, "reference", files, "reference", model.reference.source,
                     model.reference.function, problems);
    const std::string& source = model.reference.source;
    if (!source.empty() && !EndsWith(source, ".cc") && !EndsWith(source, ".cpp")) {
      problems.Add(doc, "reference.source",
                   fmt::format("'{}' is no host C++ file (.cc, .cpp); for stored outputs write "
                               "'reference: {{npy: {{y: y_{{case}}.npy}}}}'",
                               source));
    }
    return;
  }
  model.reference.kind = "npy";
  Fields fields(doc, "reference", problems);
  fields.Find("npy");
  fields.Finish();
  const std::set<std::string> outputs = OutputNames(model);
  std::map<std::string, std::string> patterns;
  ForEntries(*npy, "reference.npy", problems, [&](const DocEntry& entry) {
    const auto text = ReadText(entry.value, "reference.npy." + entry.key, problems);
    if (!outputs.contains(entry.key)) {
      problems.Add(
          entry.line, entry.column, "reference.npy." + entry.key,
          fmt::format("there is no output '{}'; {}", entry.key, Suggest(entry.key, outputs)));
    }
    patterns[entry.key] = text.value_or("");
  });
  for (const ArgDecl& arg : model.args) {  // In the order of the signature.
    if (!outputs.contains(arg.name)) continue;
    if (!patterns.contains(arg.name)) {
      problems.Add(*npy, "reference.npy",
                   fmt::format("the output '{}' has no stored file; add '{}: {}_{{case}}.npy'",
                               arg.name, arg.name, arg.name));
    }
    model.reference.files.push_back(patterns[arg.name]);
  }
}

void ParseCases(const Doc& doc, TaskModel& model, const TaskFiles& files, Problems& problems) {
  Fields fields(doc, "cases", problems);
  if (!fields.valid()) return;
  if (const Doc* timed = fields.Need("timed", "give at least one case to measure")) {
    ReadCaseSet(*timed, "cases.timed", /*timed=*/true, model, files, problems);
  }
  if (const Doc* checked = fields.Need("checked", "give at least one small, odd case to verify")) {
    ReadCaseSet(*checked, "cases.checked", /*timed=*/false, model, files, problems);
  }
  const Doc* held_out = fields.Find("held_out");
  if (held_out != nullptr) {
    const auto count = ReadInteger(*held_out, "cases.held_out", problems);
    if (count && (*count < 0 || *count > kMaxHeldOut)) {
      problems.Add(*held_out, "cases.held_out",
                   fmt::format("cases.held_out must be between 0 and {}", kMaxHeldOut));
    }
    model.held_out = static_cast<int>(std::clamp<std::int64_t>(count.value_or(0), 0, kMaxHeldOut));
  }
  if (model.reference.kind == "npy") {
    if (held_out != nullptr && model.held_out != 0) {
      problems.Add(*held_out, "cases.held_out",
                   "stored outputs cannot judge sizes drawn later; write 'held_out: 0'");
    }
    model.held_out = 0;
  }
  fields.Finish();
  CheckSpecialized(doc, model, problems);
}

void ParseTolerances(const Doc& doc, TaskModel& model, const TaskFiles& files, Problems& problems) {
  const std::set<std::string> outputs = OutputNames(model);
  const std::size_t before = problems.count();
  ForEntries(doc, "tolerance", problems, [&](const DocEntry& entry) {
    if (entry.key == "checker" && !outputs.contains("checker")) {
      ReadSharedChecker(entry.value, model, files, problems);
    } else if (!outputs.contains(entry.key)) {
      problems.Add(
          entry.line, entry.column, "tolerance." + entry.key,
          fmt::format("there is no output '{}'; {}", entry.key, Suggest(entry.key, outputs)));
    } else {
      model.tolerances.push_back(ReadTolerance(entry, model, files, problems));
    }
  });
  if (problems.count() == before) CheckTolerances(doc, model, problems);
}

void ParseWork(const Doc& doc, TaskModel& model, Problems& problems) {
  Fields fields(doc, "work", problems);
  if (!fields.valid()) return;
  std::set<std::string> names = DimAndSizeNames(model);
  for (const ArgDecl& arg : model.args) {
    if (arg.role == Role::kIndex) names.insert(arg.name);
  }
  if (const Doc* from = fields.Find("from")) {
    model.work.from_reference =
        ReadChoice(*from, "work.from", {"reference"}, problems).value_or("") == "reference";
    if (model.reference.kind == "npy") {
      problems.Add(*from, "work.from",
                   "stored outputs have no work function; give bytes and flops");
    }
  }
  for (const char* key : {"bytes", "flops"}) {
    const Doc* found = fields.Find(key);
    if (found == nullptr) continue;
    if (model.work.from_reference) {
      problems.Add(*found, fields.PathOf(key), "give either 'from: reference' or bytes and flops");
    }
    const auto expr = ReadExpr(*found, fields.PathOf(key), names, "dims", problems);
    (key[0] == 'b' ? model.work.bytes : model.work.flops) = expr.value_or(Expr());
  }
  if (const Doc* estimate = fields.Find("estimate")) {
    model.work.estimate = ReadBool(*estimate, "work.estimate", problems).value_or(false);
  }
  fields.Finish();
}

void ParseContract(const Doc& doc, TaskModel& model, Problems& problems) {
  Fields fields(doc, "contract", problems);
  if (!fields.valid()) return;
  ContractDecl& contract = model.contract;
  const auto flag = [&](const char* key, bool fallback) {
    const Doc* found = fields.Find(key);
    if (found == nullptr) return fallback;
    return ReadBool(*found, fields.PathOf(key), problems).value_or(fallback);
  };
  contract.deterministic = flag("deterministic", true);
  contract.linear = flag("linear", false);
  contract.inline_assembly = flag("inline_assembly", false);
  if (const Doc* nonfinite = fields.Find("nonfinite")) {
    const std::set<std::string> choices = {"propagate", "unspecified"};
    if (nonfinite->kind == Doc::Kind::kMap) {
      for (const DocEntry& entry : nonfinite->entries) {
        const std::string path = "contract.nonfinite." + entry.key;
        if (model.FindArg(entry.key) == nullptr) {
          problems.Add(entry.line, entry.column, path,
                       fmt::format("there is no argument '{}'", entry.key));
        }
        contract.nonfinite_of[entry.key] =
            ReadChoice(entry.value, path, choices, problems) == "propagate";
      }
    } else {
      contract.nonfinite =
          ReadChoice(*nonfinite, "contract.nonfinite", choices, problems) == "propagate";
    }
  }
  fields.Finish();
}

void ParseRivals(const Doc& doc, TaskModel& model, const TaskFiles& files, Problems& problems) {
  const auto* items = ReadList(doc, "rivals", problems);
  if (items == nullptr) return;
  for (std::size_t i = 0; i < items->size(); ++i) {
    const std::string path = fmt::format("rivals[{}]", i);
    Fields fields((*items)[i], path, problems);
    if (!fields.valid()) continue;
    RivalDecl rival;
    if (const Doc* name = fields.Need("name", "name the rival")) {
      rival.name = ReadText(*name, fields.PathOf("name"), problems).value_or("");
    }
    if (const Doc* object = fields.Need("object", "name its code object in the task folder")) {
      rival.object = ReadFileName(*object, fields.PathOf("object"), files, problems).value_or("");
    }
    if (const Doc* launches = fields.Need("launches", "describe its launches")) {
      rival.launches =
          ParseLaunches(*launches, fields.PathOf("launches"), model, KernelSpec(), problems);
    }
    fields.Finish();
    model.rivals.push_back(std::move(rival));
  }
}

}  // namespace fettle
