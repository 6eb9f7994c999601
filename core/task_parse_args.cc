// SPDX-License-Identifier: Apache-2.0
// Arguments and fills.

#include <fmt/format.h>

#include "core/task_parse.h"

namespace fettle {
namespace {

const std::set<std::string> kRoleNames = {"in",     "out",      "inout", "index",
                                          "scalar", "pointers", "none"};

struct FillForm {
  std::string_view name;
  Fill::Kind kind;
  bool bare;  // May stand without a parameter.
};
constexpr FillForm kFillForms[] = {
    {"zero", Fill::Kind::kZero, true},
    {"constant", Fill::Kind::kConstant, false},
    {"normal", Fill::Kind::kNormal, false},
    {"uniform", Fill::Kind::kUniform, true},
    {"zipf", Fill::Kind::kIndexZipf, false},
    {"sorted", Fill::Kind::kIndexSorted, true},
    {"permutation", Fill::Kind::kIndexPermutation, true},
    {"repeated", Fill::Kind::kIndexRepeated, false},
    {"runs", Fill::Kind::kIndexRuns, false},
    {"offsets", Fill::Kind::kIndexOffsets, false},
    {"list", Fill::Kind::kList, false},
    {"file", Fill::Kind::kFile, false},
};

std::set<std::string> FillNames() {
  std::set<std::string> names;
  for (const FillForm& form : kFillForms) names.emplace(form.name);
  return names;
}

bool NeedsRange(Fill::Kind kind) {
  return kind == Fill::Kind::kIndexUniform || kind == Fill::Kind::kIndexZipf ||
         kind == Fill::Kind::kIndexSorted || kind == Fill::Kind::kIndexPermutation ||
         kind == Fill::Kind::kIndexRepeated || kind == Fill::Kind::kIndexRuns;
}

FillParameter ReadParameter(const Doc& doc, const std::string& path, const TaskModel& model,
                            Problems& problems) {
  FillParameter parameter;
  if (doc.kind == Doc::Kind::kScalar) {
    if (const auto number = ParseReal(doc.text)) {
      parameter.number = *number;
      return parameter;
    }
  }
  parameter.expr = ReadExpr(doc, path, DimAndSizeNames(model), "dims", problems);
  return parameter;
}

void ReadPair(const Doc& doc, const std::string& path, std::string_view form, FillDecl& fill,
              const TaskModel& model, Problems& problems) {
  const auto* items = ReadList(doc, path, problems);
  if (items == nullptr) return;
  if (items->size() != 2) {
    problems.Add(doc, path, fmt::format("{} needs two numbers, such as '{}'", path, form));
    return;
  }
  fill.a = ReadParameter((*items)[0], path, model, problems);
  fill.b = ReadParameter((*items)[1], path, model, problems);
}

// The parameter of a fill such as `{zipf: 1.2}`.
void ReadFillParameter(const Doc& doc, const std::string& path, FillDecl& fill,
                       const TaskModel& model, const TaskFiles& files, Problems& problems) {
  const std::set<std::string> names = DimAndSizeNames(model);
  switch (fill.kind) {
    case Fill::Kind::kConstant:
    case Fill::Kind::kIndexZipf:
    case Fill::Kind::kIndexRepeated:
      fill.a = ReadParameter(doc, path, model, problems);
      return;
    case Fill::Kind::kNormal:
      return ReadPair(doc, path, "normal: [0, 1]", fill, model, problems);
    case Fill::Kind::kUniform:
      return ReadPair(doc, path, "uniform: [-1, 1]", fill, model, problems);
    case Fill::Kind::kIndexRuns: {
      auto runs = ReadExprs(doc, path, names, "dims", problems);
      if (runs) fill.runs = *std::move(runs);
      return;
    }
    case Fill::Kind::kIndexOffsets:
    case Fill::Kind::kList:
      fill.list = ReadExpr(doc, path, names, "dims", problems);
      return;
    case Fill::Kind::kFile:
      fill.file = ReadFileName(doc, path, files, problems).value_or("");
      return;
    default:
      break;
  }
  problems.Add(doc, path, fmt::format("{} takes no parameter here", path));
}

// Turns the general names into what the argument's role makes of them, and refuses what it cannot.
void FitToRole(const Doc& doc, const std::string& path, const ArgDecl& arg, bool bare,
               const TaskModel& model, FillDecl& fill, Problems& problems) {
  const bool floats = IsFloatRef(arg.type, model);
  if (arg.role == Role::kIndex && fill.kind == Fill::Kind::kUniform) {
    if (!bare) {
      problems.Add(doc, path,
                   fmt::format("{}: an index argument is uniform over its 'range'; write "
                               "'fill: uniform' and set 'range'",
                               path));
    }
    fill.kind = Fill::Kind::kIndexUniform;
  }
  if (fill.kind == Fill::Kind::kUniform && bare) {
    problems.Add(doc, path, fmt::format("{} needs its bounds, such as 'uniform: [-1, 1]'", path));
  }
  const bool indices = NeedsRange(fill.kind) || fill.kind == Fill::Kind::kIndexOffsets ||
                       fill.kind == Fill::Kind::kList;
  if (indices && floats) {
    problems.Add(doc, path,
                 fmt::format("{}: this fill is for integers; use normal, uniform, "
                             "constant, zero or file",
                             path));
  }
  if (NeedsRange(fill.kind) && !arg.range) {
    problems.Add(doc, path,
                 fmt::format("{}: this fill needs the argument's 'range: [lo, hi)'", path));
  }
  if (fill.kind == Fill::Kind::kNormal && !floats) {
    problems.Add(doc, path,
                 fmt::format("{}: normal is for floating dtypes; use 'uniform: [lo, hi]'", path));
  }
}

void ReadRows(const Doc& doc, const std::string& path, const ArgDecl& arg, const TaskModel& model,
              const TaskFiles& files, FillDecl& fill, Problems& problems) {
  Fields fields(doc, path, problems);
  for (const DocEntry& entry : doc.entries) {
    Doc key;
    key.kind = Doc::Kind::kScalar;
    key.text = entry.key;
    key.line = entry.line;
    key.column = entry.column;
    const auto row = ReadInteger(key, path, problems);
    if (!row) continue;
    if (*row < 0) problems.Add(key, path, fmt::format("{}: rows count from 0", path));
    const std::string inner = fmt::format("{}.{}", path, entry.key);
    if (entry.value.Find("rows") != nullptr) {
      problems.Add(entry.value, inner, fmt::format("{}: 'rows' does not nest", inner));
      continue;
    }
    fill.rows.emplace_back(*row, ReadFill(entry.value, inner, arg, model, files, problems));
  }
}

void ReadShape(Fields& fields, ArgDecl& arg, const std::set<std::string>& names) {
  Problems& problems = fields.problems();
  if (const Doc* shape = fields.Need("shape", "give the extents, such as 'shape: [rows, cols]'")) {
    auto extents = ReadExprs(*shape, fields.PathOf("shape"), names, "dims", problems);
    if (extents) arg.shape = *std::move(extents);
  }
  if (const Doc* strides = fields.Find("strides")) {
    arg.strides = ReadExprs(*strides, fields.PathOf("strides"), names, "dims", problems);
    if (arg.strides && arg.strides->size() != arg.shape.size()) {
      problems.Add(*strides, fields.PathOf("strides"),
                   fmt::format("{} has {} entries but the shape has {}", fields.PathOf("strides"),
                               arg.strides->size(), arg.shape.size()));
    }
  }
  if (const Doc* align = fields.Find("align")) {
    arg.align = ReadInteger(*align, fields.PathOf("align"), problems).value_or(0);
    if (arg.align < 1 || arg.align > 4096 || (arg.align & (arg.align - 1)) != 0) {
      problems.Add(*align, fields.PathOf("align"),
                   fmt::format("{} must be a power of two up to 4096", fields.PathOf("align")));
    }
  }
}

// `restore: all | touched(index)`, `touched: LIST | reference`.
void ReadRestore(Fields& fields, ArgDecl& arg, const TaskModel& model) {
  Problems& problems = fields.problems();
  const Doc* restore = fields.Find("restore");
  const Doc* touched = fields.Find("touched");
  if (arg.role != Role::kInOut) {
    for (const Doc* doc : {restore, touched}) {
      if (doc == nullptr) continue;
      problems.Add(*doc, fields.PathOf("restore"),
                   "only 'inout' arguments are restored; remove it");
    }
    return;
  }
  arg.restore = Restore::Kind::kAll;
  if (touched != nullptr) {
    if (restore != nullptr) {
      problems.Add(*touched, fields.PathOf("touched"), "give either 'restore' or 'touched'");
    }
    if (touched->text == "reference") {
      arg.restore = Restore::Kind::kTouchedReference;
      return;
    }
    arg.restore = Restore::Kind::kTouchedList;
    arg.restore_rows =
        ReadExpr(*touched, fields.PathOf("touched"), DimNames(model), "list dims", problems);
    return;
  }
  if (restore == nullptr || restore->text == "all") return;
  const std::string path = fields.PathOf("restore");
  const std::string& text = restore->text;
  constexpr std::string_view kTouched = "touched(";
  if (text.rfind(kTouched, 0) != 0 || text.back() != ')') {
    problems.Add(*restore, path, fmt::format("{} must be 'all' or 'touched(INDEX)'", path));
    return;
  }
  arg.restore = Restore::Kind::kTouchedIndex;
  arg.restore_index = text.substr(kTouched.size(), text.size() - kTouched.size() - 1);
}

void ReadTensor(Fields& fields, ArgDecl& arg, const TaskModel& model, const TaskFiles& files,
                const std::set<std::string>& names) {
  Problems& problems = fields.problems();
  ReadShape(fields, arg, names);
  ReadRestore(fields, arg, model);
  if (const Doc* range = fields.Find("range")) {
    auto bounds = ReadExprs(*range, fields.PathOf("range"), names, "dims", problems);
    if (bounds && bounds->size() == 2) {
      arg.range.emplace((*bounds)[0], (*bounds)[1]);
    } else if (bounds) {
      problems.Add(*range, fields.PathOf("range"),
                   "range needs two entries, [lo, hi), hi excluded");
    }
    if (IsFloatRef(arg.type, model)) {
      problems.Add(*range, fields.PathOf("range"), "range is for integer dtypes");
    }
  }
  if (arg.role == Role::kIndex && IsFloatRef(arg.type, model)) {
    problems.Add(fields.doc(), fields.PathOf("dtype"), "an index argument has an integer dtype");
  }
  const Doc* fill = fields.Find("fill");
  if (arg.role == Role::kOut) {
    if (fill != nullptr) {
      problems.Add(*fill, fields.PathOf("fill"),
                   "an output has no fill; it is poisoned before every call");
    }
    return;
  }
  if (fill != nullptr) {
    arg.fill = ReadFill(*fill, fields.PathOf("fill"), arg, model, files, problems);
    return;
  }
  // Defaults: indices uniform, floats normal; other integers must say.
  if (arg.role == Role::kIndex) {
    arg.fill.kind = Fill::Kind::kIndexUniform;
    if (!arg.range) fields.Need("range", "give the values' range, such as 'range: [0, rows]'");
  } else if (IsFloatRef(arg.type, model)) {
    arg.fill.kind = Fill::Kind::kNormal;
    arg.fill.b.number = 1;
  } else {
    fields.Need("fill", "say how the integers are made, such as 'fill: {uniform: [0, 9]}'");
  }
}

void ReadPerCase(Fields& fields, ArgDecl& arg) {
  Problems& problems = fields.problems();
  arg.value_kind = ArgDecl::Value::kPerCase;
  const Doc* from = fields.Find("from");
  if (from == nullptr) return;
  const std::string path = fields.PathOf("from");
  if (from->kind == Doc::Kind::kList) {
    for (const Doc& item : from->items) {
      if (const auto value = ReadReal(item, path, problems)) arg.from.push_back(*value);
    }
    if (from->items.empty()) problems.Add(*from, path, path + " needs at least one value");
    return;
  }
  Fields inner(*from, path, problems);
  if (const Doc* uniform = inner.Need("uniform", "write [0.5, 1] or {uniform: [lo, hi]}")) {
    if (uniform->kind == Doc::Kind::kList && uniform->items.size() == 2) {
      const auto lo = ReadReal(uniform->items[0], path, problems);
      const auto hi = ReadReal(uniform->items[1], path, problems);
      if (lo && hi) arg.from_uniform.emplace(*lo, *hi);
    } else {
      problems.Add(*uniform, path, path + ".uniform needs two numbers");
    }
  }
  inner.Finish();
}

void ReadScalar(Fields& fields, ArgDecl& arg, const TaskModel& model) {
  const Doc* value = fields.Need("value", "give a number, a dim, an expression or 'per_case'");
  if (value == nullptr) return;
  if (value->text == "per_case") return ReadPerCase(fields, arg);
  if (value->kind == Doc::Kind::kScalar && IsFloatRef(arg.type, model)) {
    if (const auto number = ParseReal(value->text)) {
      arg.value_kind = ArgDecl::Value::kNumber;
      arg.number = *number;
      return;
    }
  }
  arg.value =
      ReadExpr(*value, fields.PathOf("value"), DimAndSizeNames(model), "dims", fields.problems())
          .value_or(Expr());
}

ArgDecl ReadArg(const Doc& doc, const std::string& name, const std::string& path, bool member,
                const TaskModel& model, const TaskFiles& files, Problems& problems);

void ReadPointers(Fields& fields, ArgDecl& arg, const TaskModel& model, const TaskFiles& files) {
  Problems& problems = fields.problems();
  if (const Doc* count = fields.Need("count", "say how many pointers there are")) {
    arg.count = ReadExpr(*count, fields.PathOf("count"), DimNames(model), "dims", problems)
                    .value_or(Expr());
  }
  if (const Doc* each = fields.Need("each", "describe one member as an argument")) {
    arg.each = std::make_shared<ArgDecl>(ReadArg(*each, arg.name, fields.PathOf("each"),
                                                 /*member=*/true, model, files, problems));
  }
  if (const Doc* table = fields.Find("table")) {
    arg.in_struct = ReadChoice(*table, fields.PathOf("table"), {"device", "struct"}, problems)
                        .value_or("device") == "struct";
  }
}

ArgDecl ReadArg(const Doc& doc, const std::string& name, const std::string& path, bool member,
                const TaskModel& model, const TaskFiles& files, Problems& problems) {
  ArgDecl arg;
  arg.name = name;
  arg.line = doc.line;
  arg.column = doc.column;
  Fields fields(doc, path, problems);
  if (!fields.valid()) return arg;
  std::set<std::string> roles = kRoleNames;
  if (member) roles = {"in", "out", "inout", "index"};
  const Doc* role = fields.Need("role", "one of in, out, inout, index, scalar, pointers, none");
  if (role != nullptr) {
    const auto text = ReadChoice(*role, fields.PathOf("role"), roles, problems);
    if (!text || !roles.contains(*text)) return arg;
    static const std::map<std::string, Role> kRoles = {
        {"in", Role::kIn},       {"out", Role::kOut},       {"inout", Role::kInOut},
        {"index", Role::kIndex}, {"scalar", Role::kScalar}, {"pointers", Role::kPointers},
        {"none", Role::kNone}};
    arg.role = kRoles.at(*text);
  }
  if (arg.role == Role::kPointers) {
    ReadPointers(fields, arg, model, files);
  } else if (arg.role != Role::kNone) {
    if (const Doc* dtype = fields.Need("dtype", "one of f32, f16, ..., or $T of a type family")) {
      const auto type = ReadTypeRef(*dtype, fields.PathOf("dtype"), model, problems);
      if (!type) return arg;
      arg.type = *type;
    } else {
      return arg;
    }
    std::set<std::string> names = DimAndSizeNames(model);
    if (member) names.insert("g");
    if (arg.role == Role::kScalar) {
      ReadScalar(fields, arg, model);
    } else {
      ReadTensor(fields, arg, model, files, names);
    }
  }
  if (arg.role != Role::kScalar && arg.role != Role::kNone) {
    if (const Doc* optional = fields.Find("optional")) {
      const auto dim = ReadIdentifier(*optional, fields.PathOf("optional"), problems);
      if (dim && model.FindDim(*dim) == nullptr) {
        problems.Add(*optional, fields.PathOf("optional"),
                     fmt::format("{}: there is no dim '{}'; {}", fields.PathOf("optional"), *dim,
                                 Suggest(*dim, DimNames(model))));
      }
      arg.optional_dim = dim.value_or("");
    }
  }
  fields.Finish();
  return arg;
}

// What can only be said once all arguments are known.
void CheckTogether(const TaskModel& model, Problems& problems) {
  bool output = false;
  for (const ArgDecl& arg : model.args) {
    const ArgDecl& tensor = arg.each != nullptr ? *arg.each : arg;
    output |= tensor.role == Role::kOut || tensor.role == Role::kInOut;
    if (tensor.restore != Restore::Kind::kTouchedIndex) continue;
    const ArgDecl* index = model.FindArg(tensor.restore_index);
    if (index == nullptr || index->role != Role::kIndex) {
      problems.Add(arg.line, arg.column, fmt::format("args.{}.restore", arg.name),
                   fmt::format("touched({}) must name an index argument", tensor.restore_index));
    }
  }
  if (!output && !model.args.empty()) {
    problems.Add(
        model.args.front().line, model.args.front().column, "args",
        "no argument has role 'out' or 'inout'; a kernel without output has nothing to check");
  }
}

}  // namespace

FillDecl ReadFill(const Doc& doc, const std::string& path, const ArgDecl& arg,
                  const TaskModel& model, const TaskFiles& files, Problems& problems) {
  FillDecl fill;
  const std::set<std::string> names = FillNames();
  const bool bare = doc.kind == Doc::Kind::kScalar;
  std::string name = doc.text;
  const Doc* parameter = nullptr;
  if (!bare) {
    Fields fields(doc, path, problems);
    if (!fields.valid()) return fill;
    for (const FillForm& form : kFillForms) {
      if (const Doc* found = fields.Find(std::string(form.name))) {
        if (parameter != nullptr) {
          problems.Add(doc, path,
                       fmt::format("{} has both '{}' and '{}'; keep one", path, name, form.name));
        }
        parameter = found;
        name = form.name;
      }
    }
    if (const Doc* rows = fields.Find("rows")) {
      ReadRows(*rows, fields.PathOf("rows"), arg, model, files, fill, problems);
    }
    fields.Finish();
    if (parameter == nullptr) {
      problems.Add(doc, path,
                   fmt::format("{} names no fill; use one of normal, uniform, zero, "
                               "constant, zipf, sorted, permutation, repeated, runs, "
                               "offsets, list, file",
                               path));
      return fill;
    }
  } else if (!names.contains(name)) {
    problems.Add(
        doc, path,
        fmt::format("{}: unknown fill '{}'; {}", path, name.substr(0, 80), Suggest(name, names)));
    return fill;
  }
  for (const FillForm& form : kFillForms) {
    if (form.name != name) continue;
    fill.kind = form.kind;
    if (bare && !form.bare) {
      problems.Add(
          doc, path,
          fmt::format("{}: '{}' needs a parameter, as in '{{{}: ...}}'", path, name, name));
      return fill;
    }
  }
  const bool none = bare || parameter->kind == Doc::Kind::kNull;
  if (!none) {
    ReadFillParameter(*parameter, fmt::format("{}.{}", path, name), fill, model, files, problems);
  }
  FitToRole(doc, path, arg, none, model, fill, problems);
  return fill;
}

void ParseArgs(const Doc& doc, TaskModel& model, const TaskFiles& files, Problems& problems) {
  const auto* items = ReadList(doc, "args", problems);
  if (items == nullptr) return;
  const std::size_t before = problems.count();
  for (std::size_t i = 0; i < items->size(); ++i) {
    const Doc& item = (*items)[i];
    if (item.kind != Doc::Kind::kMap || item.entries.size() != 1) {
      problems.Add(item, fmt::format("args[{}]", i),
                   "an argument is one name with its fields, such as '- x: {role: in, ...}'");
      continue;
    }
    const DocEntry& entry = item.entries.front();
    if (!IsIdentifier(entry.key)) {
      problems.Add(entry.line, entry.column, fmt::format("args[{}]", i),
                   fmt::format("'{}' is no name for an argument", entry.key));
    }
    if (model.FindArg(entry.key) != nullptr) {
      problems.Add(entry.line, entry.column, "args." + entry.key,
                   fmt::format("there are two arguments named '{}'", entry.key));
      continue;
    }
    ArgDecl arg = ReadArg(entry.value, entry.key, "args." + entry.key, /*member=*/false, model,
                          files, problems);
    arg.line = entry.line;
    arg.column = entry.column;
    model.args.push_back(std::move(arg));
  }
  if (items->empty()) problems.Add(doc, "args", "args needs at least one argument");
  if (problems.count() == before) CheckTogether(model, problems);  // Else it would mislead.
}

}  // namespace fettle
