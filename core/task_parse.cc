// SPDX-License-Identifier: Apache-2.0
#include "core/task_parse.h"

#include <algorithm>

#include <fmt/format.h>

namespace fettle {
namespace {

std::set<std::string> DTypeNames() {
  std::set<std::string> names;
  for (int i = 0; i < kDTypeCount; ++i) {
    names.emplace(DTypeName(static_cast<DType>(i)));
  }
  return names;
}

// `{f16: __half, bf16: {cuda: __nv_bfloat16, hip: hip_bfloat16}}`
void ReadSpelling(const DocEntry& entry, const std::string& path, DType dtype, TypeFamily& family,
                  Problems& problems) {
  if (entry.value.kind == Doc::Kind::kScalar) {
    for (const Dialect dialect : {Dialect::kCuda, Dialect::kHip}) {
      family.spellings[{dtype, dialect}] = entry.value.text;
    }
    return;
  }
  Fields fields(entry.value, path, problems);
  for (const Dialect dialect : {Dialect::kCuda, Dialect::kHip}) {
    const std::string key(DialectName(dialect));
    if (const Doc* text = fields.Find(key)) {
      if (const auto value = ReadText(*text, fields.PathOf(key), problems)) {
        family.spellings[{dtype, dialect}] = *value;
      }
    }
  }
  fields.Finish();
}

void ReadFamily(const DocEntry& entry, TaskModel& model, Problems& problems) {
  const std::string path = "types." + entry.key;
  TypeFamily family;
  family.name = entry.key;
  if (!IsIdentifier(entry.key)) {
    problems.Add(entry.line, entry.column, path,
                 fmt::format("'{}' is no name for a type", entry.key));
  }
  if (entry.value.kind == Doc::Kind::kMap) {
    for (const DocEntry& dtype : entry.value.entries) {
      Doc name;
      name.kind = Doc::Kind::kScalar;
      name.text = dtype.key;
      name.line = dtype.line;
      name.column = dtype.column;
      const auto parsed = ReadDType(name, path, problems);
      if (!parsed) continue;
      family.dtypes.push_back(*parsed);
      ReadSpelling(dtype, path + "." + dtype.key, *parsed, family, problems);
    }
  } else if (const auto* items = ReadList(entry.value, path, problems)) {
    for (const Doc& item : *items) {
      const auto parsed = ReadDType(item, path, problems);
      if (!parsed) continue;
      if (std::find(family.dtypes.begin(), family.dtypes.end(), *parsed) != family.dtypes.end()) {
        problems.Add(item, path, fmt::format("{} stands in {} twice", item.text, path));
        continue;
      }
      family.dtypes.push_back(*parsed);
    }
    if (items->empty()) problems.Add(entry.value, path, path + " must name at least one dtype");
  }
  model.types.push_back(std::move(family));
}

void CheckDomain(const Doc& doc, const std::string& path, DimDecl& dim, Problems& problems) {
  const Doc* in = doc.Find("in");
  if (in != nullptr && (doc.Find("min") != nullptr || doc.Find("max") != nullptr)) {
    problems.Add(*in, path, fmt::format("{} has both 'in' and 'min'/'max'; keep one", path));
  }
  if (dim.min.is_constant() && dim.max.is_constant() && dim.in.empty() && !dim.let) {
    const auto lo = dim.min.Evaluate({}), hi = dim.max.Evaluate({});
    if (lo.ok() && hi.ok() && *lo > *hi) {
      problems.Add(doc, path, fmt::format("{} has min {} above max {}", path, *lo, *hi));
    }
  }
}

void ReadDomain(Fields& fields, const std::set<std::string>& above, DimDecl& dim) {
  Problems& problems = fields.problems();
  constexpr std::string_view kWhat = "dims above";
  if (const Doc* in = fields.Find("in")) {
    if (const auto* items = ReadList(*in, fields.PathOf("in"), problems)) {
      for (const Doc& item : *items) {
        if (const auto value = ReadInteger(item, fields.PathOf("in"), problems)) {
          dim.in.push_back(*value);
        }
      }
      if (items->empty()) problems.Add(*in, fields.PathOf("in"), "'in' needs at least one value");
    }
    fields.Find("min");
    fields.Find("max");
  } else {
    const Doc* min = fields.Need("min", "say the least value, such as 'min: 1'");
    const Doc* max = fields.Need("max", "say the largest value, such as 'max: 65536'");
    if (min != nullptr) {
      dim.min = ReadExpr(*min, fields.PathOf("min"), above, kWhat, problems).value_or(Expr());
    }
    if (max != nullptr) {
      dim.max = ReadExpr(*max, fields.PathOf("max"), above, kWhat, problems).value_or(Expr());
    }
  }
  if (const Doc* multiple = fields.Find("multiple_of")) {
    dim.multiple_of = ReadExpr(*multiple, fields.PathOf("multiple_of"), above, kWhat, problems)
                          .value_or(Expr::Constant(1));
  }
  if (const Doc* other = fields.Find("or")) {
    dim.or_value = ReadExpr(*other, fields.PathOf("or"), above, kWhat, problems);
  }
}

void ReadDim(const DocEntry& entry, TaskModel& model, const TaskFiles& files, Problems& problems) {
  const std::string path = "dims." + entry.key;
  std::set<std::string> above = DimAndSizeNames(model);
  DimDecl dim;
  dim.name = entry.key;
  dim.line = entry.line;
  dim.column = entry.column;
  if (!IsIdentifier(entry.key) || entry.key == "target" || model.FindType(entry.key) != nullptr ||
      entry.key == "weight" || entry.key == "for") {
    problems.Add(entry.line, entry.column, path,
                 fmt::format("'{}' cannot name a dim; choose another name of letters, digits and "
                             "underscores",
                             entry.key));
  }
  Fields fields(entry.value, path, problems);
  if (!fields.valid()) {
    model.dims.push_back(std::move(dim));
    return;
  }
  if (const Doc* length = fields.Find("list")) {
    dim.is_list = true;
    dim.length =
        ReadExpr(*length, fields.PathOf("list"), above, "dims above", problems).value_or(Expr());
  }
  if (const Doc* let = fields.Find("let")) {
    if (dim.is_list) above.insert("i");
    dim.let = ReadExpr(*let, fields.PathOf("let"), above, "dims above", problems);
    if (!dim.let) dim.let = Expr();
  } else {
    ReadDomain(fields, above, dim);
    const Doc* fill = dim.is_list ? fields.Find("fill") : nullptr;
    if (fill != nullptr && fill->kind == Doc::Kind::kMap) {
      Fields inner(*fill, fields.PathOf("fill"), problems);
      if (const Doc* file =
              inner.Need("file", "write 'fill: uniform' or 'fill: {file: lens.npy}'")) {
        dim.file = ReadFileName(*file, inner.PathOf("file"), files, problems).value_or("");
      }
      inner.Finish();
    } else if (fill != nullptr) {
      ReadChoice(*fill, fields.PathOf("fill"), {"uniform"}, problems);
    }
  }
  fields.Finish();
  CheckDomain(entry.value, path, dim, problems);
  model.dims.push_back(std::move(dim));
}

void ReadHead(Fields& fields, TaskModel& model) {
  Problems& problems = fields.problems();
  if (const Doc* format = fields.Need("format", "write 'format: 1'")) {
    const auto version = ReadInteger(*format, "format", problems);
    if (version && *version != 1) {
      problems.Add(
          *format, "format",
          fmt::format("format {} is not known to this fettle; it reads format 1", *version));
    }
  }
  if (const Doc* name = fields.Need("name", "write a name such as 'name: layernorm_fwd'")) {
    model.name = ReadIdentifier(*name, "name", problems).value_or("");
  }
  if (const Doc* summary = fields.Find("summary")) {
    model.summary = ReadText(*summary, "summary", problems).value_or("");
  }
  if (const Doc* license = fields.Find("license")) {
    model.license = ReadText(*license, "license", problems).value_or("");
  }
}

void ReadSpecialize(const Doc& doc, TaskModel& model, Problems& problems) {
  const auto* items = ReadList(doc, "specialize", problems);
  if (items == nullptr) return;
  for (const Doc& item : *items) {
    const auto name = ReadIdentifier(item, "specialize", problems);
    if (!name) continue;
    const DimDecl* dim = model.FindDim(*name);
    if (dim == nullptr || dim->is_list) {
      problems.Add(item, "specialize",
                   fmt::format("specialize: '{}' is no plain dim; {}", *name,
                               Suggest(*name, DimNames(model))));
      continue;
    }
    model.specialize.push_back(*name);
  }
}

}  // namespace

const DimDecl* TaskModel::FindDim(std::string_view dim) const {
  for (const DimDecl& entry : dims) {
    if (entry.name == dim) return &entry;
  }
  return nullptr;
}

const ArgDecl* TaskModel::FindArg(std::string_view arg) const {
  for (const ArgDecl& entry : args) {
    if (entry.name == arg) return &entry;
  }
  return nullptr;
}

const TypeFamily* TaskModel::FindType(std::string_view family) const {
  for (const TypeFamily& entry : types) {
    if (entry.name == family) return &entry;
  }
  return nullptr;
}

std::optional<DType> ReadDType(const Doc& doc, const std::string& path, Problems& problems) {
  const auto text = ReadText(doc, path, problems);
  if (!text) return std::nullopt;
  const std::optional<DType> dtype = ParseDType(*text);
  if (!dtype) {
    problems.Add(doc, path,
                 fmt::format("{}: unknown dtype '{}'; {}", path, text->substr(0, 80),
                             Suggest(*text, DTypeNames())));
  }
  return dtype;
}

std::optional<TypeRef> ReadTypeRef(const Doc& doc, const std::string& path, const TaskModel& model,
                                   Problems& problems) {
  TypeRef type;
  if (doc.kind == Doc::Kind::kScalar && !doc.text.empty() && doc.text[0] == '$') {
    type.family = doc.text.substr(1);
    if (model.FindType(type.family) != nullptr) return type;
    std::set<std::string> families;
    for (const TypeFamily& family : model.types) families.insert(family.name);
    problems.Add(doc, path,
                 fmt::format("{}: there is no type '{}' under 'types'; {}", path, doc.text,
                             Suggest(type.family, families)));
    return std::nullopt;
  }
  const auto dtype = ReadDType(doc, path, problems);
  if (!dtype) return std::nullopt;
  type.dtype = *dtype;
  return type;
}

bool IsFloatRef(const TypeRef& type, const TaskModel& model) {
  if (type.family.empty()) return IsFloat(type.dtype);
  const TypeFamily* family = model.FindType(type.family);
  return family != nullptr && std::all_of(family->dtypes.begin(), family->dtypes.end(), IsFloat);
}

std::optional<std::string> ReadFileName(const Doc& doc, const std::string& path,
                                        const TaskFiles& files, Problems& problems) {
  auto name = ReadText(doc, path, problems);
  if (!name) return std::nullopt;
  if (files.contains(*name)) return name;
  std::set<std::string> known;
  for (const auto& [file, bytes] : files) {
    if (file != "task.yaml") known.insert(file);
  }
  problems.Add(doc, path,
               fmt::format("{}: the task folder has no file '{}'; {}", path, name->substr(0, 200),
                           Suggest(*name, known)));
  return std::nullopt;
}

std::set<std::string> DimNames(const TaskModel& model) {
  std::set<std::string> names;
  for (const DimDecl& dim : model.dims) names.insert(dim.name);
  return names;
}

std::set<std::string> DimAndSizeNames(const TaskModel& model) {
  std::set<std::string> names = DimNames(model);
  for (const TypeFamily& family : model.types) names.insert(fmt::format("sizeof({})", family.name));
  return names;
}

std::set<std::string> TargetNames() {
  std::set<std::string> names;
  for (const auto& [name, value] : TargetVariables(Target())) names.insert("target." + name);
  return names;
}

std::set<std::string> PlanNames(const TaskModel& model, const KernelSpec& kernel) {
  std::set<std::string> names = DimAndSizeNames(model);
  names.merge(TargetNames());
  for (const Tunable& tunable : kernel.tunables) names.insert(tunable.name);
  return names;
}

void ParseTypes(const Doc& doc, TaskModel& model, Problems& problems) {
  Fields fields(doc, "types", problems);
  for (const DocEntry& entry : doc.entries) ReadFamily(entry, model, problems);
}

void ParseDims(const Doc& doc, TaskModel& model, const TaskFiles& files, Problems& problems) {
  Fields fields(doc, "dims", problems);
  for (const DocEntry& entry : doc.entries) ReadDim(entry, model, files, problems);
}

TaskModel ParseTaskDoc(const Doc& doc, const TaskFiles& files, Problems& problems) {
  TaskModel model;
  Fields fields(doc, "", problems);
  if (!fields.valid()) return model;
  ReadHead(fields, model);
  if (const Doc* types = fields.Find("types")) ParseTypes(*types, model, problems);
  if (const Doc* dims = fields.Find("dims")) ParseDims(*dims, model, files, problems);
  if (const Doc* valid = fields.Find("valid")) {
    auto conditions = ReadExprs(*valid, "valid", DimNames(model), "dims", problems);
    if (conditions) model.valid = *std::move(conditions);
  }
  if (const Doc* names = fields.Find("specialize")) ReadSpecialize(*names, model, problems);
  const std::size_t before_args = problems.count();
  if (const Doc* args = fields.Need("args", "list the operator's arguments in order")) {
    ParseArgs(*args, model, files, problems);
  }
  const bool args_hold = problems.count() == before_args;
  if (const Doc* baseline = fields.Need("baseline", "describe the kernel to improve")) {
    model.baseline = ParseKernelBlock(*baseline, "baseline", model, files,
                                      /*inline_source=*/false, problems);
  }
  if (const Doc* reference =
          fields.Need("reference",
                      "name the double-precision reference, such as "
                      "'reference: {source: reference.cc, function: layernorm_ref}'")) {
    ParseReference(*reference, model, files, problems);
  }
  if (const Doc* cases = fields.Need("cases", "give at least one timed and one checked case")) {
    ParseCases(*cases, model, files, problems);
  }
  if (const Doc* contract = fields.Find("contract")) ParseContract(*contract, model, problems);
  if (const Doc* tolerance = fields.Need("tolerance",
                                         "say how each output is judged, such as "
                                         "'tolerance: {y: {auto: {reduce: cols}}}'")) {
    if (args_hold) ParseTolerances(*tolerance, model, files, problems);
  }
  if (const Doc* work = fields.Find("work")) ParseWork(*work, model, problems);
  if (const Doc* rivals = fields.Find("rivals")) ParseRivals(*rivals, model, files, problems);
  fields.Finish();
  return model;
}

}  // namespace fettle
