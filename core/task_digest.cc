// SPDX-License-Identifier: Apache-2.0
// The canonical JSON of a parsed task, whose digest identifies it. Field names here are part of the
// identity: changing one changes every task's digest.

#include <fmt/format.h>

#include "core/bound_json.h"
#include "core/digest.h"
#include "core/task_impl.h"

namespace fettle {
namespace {

using nlohmann::json;

json Exprs(const std::vector<Expr>& exprs) {
  json out = json::array();
  for (const Expr& expr : exprs) out.push_back(expr.canonical());
  return out;
}

json TypeJson(const TypeRef& type) {
  return type.family.empty() ? json(DTypeName(type.dtype)) : json("$" + type.family);
}

std::string FileDigest(const TaskFiles& files, const std::string& path) {
  const auto found = files.find(path);
  return found == files.end() ? std::string() : Sha256Hex(found->second);
}

json ParameterJson(const FillParameter& parameter) {
  return parameter.expr ? json(parameter.expr->canonical()) : json(parameter.number);
}

json FillJson(const FillDecl& fill, const TaskFiles& files) {
  json out = {{"kind", static_cast<int>(fill.kind)},
              {"a", ParameterJson(fill.a)},
              {"b", ParameterJson(fill.b)},
              {"runs", Exprs(fill.runs)}};
  if (fill.list) out["list"] = fill.list->canonical();
  if (!fill.file.empty()) out["file"] = FileDigest(files, fill.file);
  for (const auto& [row, inner] : fill.rows) {
    out["rows"].push_back(json::array({row, FillJson(inner, files)}));
  }
  return out;
}

json DimJson(const DimDecl& dim, const TaskFiles& files) {
  json out = {{"name", dim.name}, {"is_list", dim.is_list}, {"length", dim.length.canonical()}};
  if (dim.let) {
    out["let"] = dim.let->canonical();
    return out;
  }
  out["in"] = dim.in;
  out["min"] = dim.min.canonical();
  out["max"] = dim.max.canonical();
  out["multiple_of"] = dim.multiple_of.canonical();
  if (dim.or_value) out["or"] = dim.or_value->canonical();
  if (!dim.file.empty()) out["file"] = FileDigest(files, dim.file);
  return out;
}

json ArgJson(const ArgDecl& arg, const TaskFiles& files) {
  json out = {{"name", arg.name}, {"role", RoleName(arg.role)}};
  if (arg.role == Role::kNone) return out;
  if (!arg.optional_dim.empty()) out["optional"] = arg.optional_dim;
  if (arg.role == Role::kPointers) {
    out["count"] = arg.count.canonical();
    out["each"] = ArgJson(*arg.each, files);
    out["in_struct"] = arg.in_struct;
    return out;
  }
  out["dtype"] = TypeJson(arg.type);
  if (arg.role == Role::kScalar) {
    out["value_kind"] = static_cast<int>(arg.value_kind);
    if (arg.value_kind == ArgDecl::Value::kNumber) out["number"] = arg.number;
    if (arg.value_kind == ArgDecl::Value::kExpr) out["value"] = arg.value.canonical();
    out["from"] = arg.from;
    if (arg.from_uniform) out["uniform"] = {arg.from_uniform->first, arg.from_uniform->second};
    return out;
  }
  out["shape"] = Exprs(arg.shape);
  if (arg.strides) out["strides"] = Exprs(*arg.strides);
  out["align"] = arg.align;
  out["fill"] = FillJson(arg.fill, files);
  if (arg.range) out["range"] = {arg.range->first.canonical(), arg.range->second.canonical()};
  out["restore"] = static_cast<int>(arg.restore);
  out["restore_index"] = arg.restore_index;
  if (arg.restore_rows) out["restore_rows"] = arg.restore_rows->canonical();
  return out;
}

json CaseJson(const CaseDecl& declared, const TaskFiles& files) {
  json out = {{"weight", declared.weight},
              {"types", json::object()},
              {"dims", json::object()},
              {"fills", json::object()},
              {"scalars", declared.scalars}};
  if (declared.on != CaseDecl::On::kAll) {
    out["for"] = declared.on == CaseDecl::On::kCpu ? "cpu" : "gpu";
  }
  for (const auto& [family, dtype] : declared.types) out["types"][family] = DTypeName(dtype);
  for (const auto& [name, value] : declared.dims) {
    json& dim = out["dims"][name];
    switch (value.kind) {
      case CaseValue::Kind::kNumber:
        dim = value.number;
        break;
      case CaseValue::Kind::kList:
        dim = value.list;
        break;
      case CaseValue::Kind::kUniform:
        dim = {{"uniform", {value.lo, value.hi}}};
        break;
      case CaseValue::Kind::kFile:
        dim = {{"file", FileDigest(files, value.file)}};
        break;
    }
  }
  for (const auto& [name, fill] : declared.fills) out["fills"][name] = FillJson(fill, files);
  return out;
}

json KernelJson(const KernelSpec& kernel) {
  json out = ToJson(kernel);
  out["source"] = Sha256Hex(kernel.source);
  for (json& header : out["headers"]) {
    header["text"] = Sha256Hex(header["text"].get_ref<const std::string&>());
  }
  out["constraints"] = Exprs(kernel.constraints);
  out["requires"] = Exprs(kernel.guards);
  return out;
}

json ToleranceJson(const ToleranceDecl& tolerance) {
  json out = {{"output", tolerance.output},
              {"kind", static_cast<int>(tolerance.kind)},
              {"rtol", tolerance.rtol},
              {"atol", tolerance.atol},
              {"reduce", tolerance.reduce.canonical()},
              {"acc", DTypeName(tolerance.acc)}};
  if (tolerance.inner) out["inner"] = DTypeName(*tolerance.inner);
  if (tolerance.raw) out["raw"] = true;
  return out;
}

json TypesJson(const TaskModel& model) {
  json out = json::array();
  for (const TypeFamily& family : model.types) {
    json dtypes = json::array(), spellings = json::array();
    for (const DType dtype : family.dtypes) dtypes.push_back(DTypeName(dtype));
    for (const auto& [key, spelling] : family.spellings) {
      spellings.push_back({DTypeName(key.first), DialectName(key.second), spelling});
    }
    out.push_back({{"name", family.name}, {"dtypes", dtypes}, {"spellings", spellings}});
  }
  return out;
}

// References and checkers may include any file of the task, so all of them count.
json FilesJson(const TaskFiles& files) {
  json out = json::object();
  for (const auto& [path, bytes] : files) {
    if (path != "task.yaml") out[path] = Sha256Hex(bytes);
  }
  return out;
}

}  // namespace

json CanonicalTask(const TaskModel& model, const TaskFiles& files) {
  json out = {{"format", 1},
              {"name", model.name},
              {"summary", model.summary},
              {"license", model.license},
              {"types", TypesJson(model)},
              {"valid", Exprs(model.valid)},
              {"specialize", model.specialize},
              {"baseline", KernelJson(model.baseline)},
              {"held_out", model.held_out},
              {"files", FilesJson(files)},
              {"reference",
               {{"kind", model.reference.kind},
                {"source", model.reference.source},
                {"function", model.reference.function},
                {"files", model.reference.files}}},
              {"work",
               {{"bytes", model.work.bytes.canonical()},
                {"flops", model.work.flops.canonical()},
                {"from_reference", model.work.from_reference},
                {"estimate", model.work.estimate}}},
              {"contract",
               {{"deterministic", model.contract.deterministic},
                {"linear", model.contract.linear},
                {"nonfinite", model.contract.nonfinite},
                {"nonfinite_of", model.contract.nonfinite_of},
                {"inline_assembly", model.contract.inline_assembly}}}};
  for (const char* key : {"dims", "args", "timed", "checked", "tolerances", "checkers", "rivals"}) {
    out[key] = json::array();
  }
  for (const DimDecl& dim : model.dims) out["dims"].push_back(DimJson(dim, files));
  for (const ArgDecl& arg : model.args) out["args"].push_back(ArgJson(arg, files));
  for (const CaseDecl& entry : model.timed) out["timed"].push_back(CaseJson(entry, files));
  for (const CaseDecl& entry : model.checked) out["checked"].push_back(CaseJson(entry, files));
  for (const auto& entry : model.tolerances) out["tolerances"].push_back(ToleranceJson(entry));
  for (const auto& checker : model.checkers) {
    out["checkers"].push_back(
        {{"source", checker.source}, {"function", checker.function}, {"outputs", checker.outputs}});
  }
  for (const RivalDecl& rival : model.rivals) {
    out["rivals"].push_back(
        {{"name", rival.name}, {"object", rival.object}, {"launches", rival.launches}});
  }
  return out;
}

}  // namespace fettle
