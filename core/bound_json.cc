// SPDX-License-Identifier: Apache-2.0
#include "core/bound_json.h"

#include <array>

#include <fmt/format.h>

#include "core/base64.h"
#include "core/json_reader.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 7> kRoles = {"in",     "out",      "inout", "index",
                                                    "scalar", "pointers", "none"};
constexpr std::array<std::string_view, 3> kCaseSets = {"timed", "checked", "held_out"};
constexpr std::array<std::string_view, 13> kFills = {
    "zero",        "constant", "normal", "uniform", "index_uniform", "zipf", "sorted",
    "permutation", "repeated", "runs",   "offsets", "list",          "file"};
constexpr std::array<std::string_view, 5> kRestores = {"none", "all", "touched_index",
                                                       "touched_list", "touched_reference"};
constexpr std::array<std::string_view, 5> kTolerances = {"auto", "relative", "exact_bits",
                                                         "exact_values", "checker"};
constexpr std::array<std::string_view, 7> kArgs = {"tensor", "pointers", "workspace", "value",
                                                   "struct", "null",     "tensor_map"};
constexpr std::array<std::string_view, 3> kSteps = {"kernel", "fill", "copy"};

template <typename E, const auto& kTable>
std::optional<E> ParseName(std::string_view name) {
  return FindName<E>(kTable, name);
}
template <typename E, std::size_t N>
std::string_view NameOf(const std::array<std::string_view, N>& names, E value) {
  return names[static_cast<std::size_t>(value)];
}

// Long lists (a length for each of half a million bags) travel as text: base64 of one varint for
// each entry's difference from the one before, zigzag. As numbers they would take most of the time
// of a call.
constexpr std::size_t kLongList = 64;

json ListJson(const std::vector<std::int64_t>& list) {
  if (list.size() <= kLongList) return list;
  std::string bytes;
  std::uint64_t before = 0;
  for (const std::int64_t entry : list) {
    const std::uint64_t change = static_cast<std::uint64_t>(entry) - before;
    std::uint64_t zigzag = (change << 1) ^ (0 - (change >> 63));
    for (; zigzag >= 0x80; zigzag >>= 7) bytes += static_cast<char>(zigzag | 0x80);
    bytes += static_cast<char>(zigzag);
    before = static_cast<std::uint64_t>(entry);
  }
  return Base64Encode(bytes);
}

absl::StatusOr<std::vector<std::int64_t>> ListFromText(const std::string& text) {
  FETTLE_ASSIGN_OR_RETURN(const std::string bytes, Base64Decode(text));
  std::vector<std::int64_t> list;
  std::uint64_t before = 0, zigzag = 0;
  int shift = 0;
  for (const char byte : bytes) {
    if (shift > 63) return absl::InvalidArgumentError("an entry is longer than 64 bits");
    const auto bits = static_cast<std::uint64_t>(byte & 0x7F);
    if (shift == 63 && bits > 1) return absl::InvalidArgumentError("an entry passes 64 bits");
    zigzag |= bits << shift;
    shift += 7;
    if ((byte & 0x80) != 0) continue;
    before += (zigzag >> 1) ^ (0 - (zigzag & 1));
    list.push_back(static_cast<std::int64_t>(before));
    zigzag = 0;
    shift = 0;
  }
  if (shift != 0) return absl::InvalidArgumentError("the last entry is cut short");
  return list;
}

void GetList(JsonReader& reader, std::string_view key, std::vector<std::int64_t>& out) {
  if (!reader.Has(key)) return reader.Fail(key, "is missing");
  const json& value = reader.Child(key);
  if (!value.is_string()) return reader.Get(key, out);
  absl::StatusOr<std::vector<std::int64_t>> list = ListFromText(value.get<std::string>());
  if (!list.ok()) return reader.Fail(key, std::string(list.status().message()));
  out = *std::move(list);
}

json ToJson(const Fill& fill) {
  json out = {{"kind", NameOf(kFills, fill.kind)},
              {"a", JsonNumber(fill.a)},
              {"b", JsonNumber(fill.b)},
              {"lo", fill.lo},
              {"hi", fill.hi},
              {"list", ListJson(fill.list)},
              {"file", fill.file}};
  json rows = json::array();
  for (const auto& [row, override_fill] : fill.rows) {
    rows.push_back(json::array({row, ToJson(override_fill)}));
  }
  out["rows"] = std::move(rows);
  return out;
}

absl::StatusOr<Fill> FillFromJson(const json& in, int depth) {
  JsonReader reader(in, "fill");
  Fill fill;
  fill.kind = reader.Enum("kind", ParseName<Fill::Kind, kFills>, Fill::Kind::kZero);
  reader.Get("a", fill.a);
  reader.Get("b", fill.b);
  reader.Get("lo", fill.lo);
  reader.Get("hi", fill.hi);
  GetList(reader, "list", fill.list);
  reader.Get("file", fill.file);
  reader.ForEach("rows", [&](const json& entry) -> absl::Status {
    if (depth > 0 || !entry.is_array() || entry.size() != 2 || !entry[0].is_number_integer()) {
      return absl::InvalidArgumentError("fill.rows: must hold [row, fill] pairs, not nested");
    }
    FETTLE_ASSIGN_OR_RETURN(Fill inner, FillFromJson(entry[1], depth + 1));
    fill.rows.emplace_back(entry[0].get<std::int64_t>(), std::move(inner));
    return absl::OkStatus();
  });
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return fill;
}

json ToJson(const BoundTensor& tensor) {
  return {{"name", tensor.name},
          {"member", tensor.member},
          {"role", RoleName(tensor.role)},
          {"dtype", DTypeName(tensor.dtype)},
          {"shape", tensor.shape},
          {"strides", tensor.strides},
          {"align_bytes", tensor.align_bytes},
          {"fill", ToJson(tensor.fill)},
          {"restore",
           {{"kind", NameOf(kRestores, tensor.restore.kind)},
            {"index", tensor.restore.index},
            {"rows", ListJson(tensor.restore.rows)}}},
          {"is_null", tensor.is_null},
          {"nonfinite", tensor.nonfinite}};
}

// Whether element counts and addresses of the tensor fit int64 with room for its bytes.
bool LayoutIsSane(const BoundTensor& tensor) {
  if (tensor.shape.size() != tensor.strides.size()) return false;
  std::int64_t elements = 1, last = 0;
  constexpr std::int64_t kMost = std::int64_t{1} << 56;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    const std::int64_t extent = tensor.shape[i], stride = tensor.strides[i];
    std::int64_t step = 0;
    if (extent < 0 || stride < 0) return false;
    if (__builtin_mul_overflow(elements, extent, &elements) || elements > kMost) return false;
    if (__builtin_mul_overflow(extent, stride, &step) ||
        __builtin_add_overflow(last, step, &last) || last > kMost) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<BoundTensor> TensorFromJson(const json& in) {
  JsonReader reader(in, "tensor");
  BoundTensor tensor;
  reader.Get("name", tensor.name);
  reader.Get("member", tensor.member);
  tensor.role = reader.Enum("role", ParseRole, Role::kIn);
  tensor.dtype = reader.Enum("dtype", ParseDType, DType::kF32);
  reader.Get("shape", tensor.shape);
  reader.Get("strides", tensor.strides);
  reader.Get("align_bytes", tensor.align_bytes);
  reader.Nested("fill", tensor.fill, [](const json& fill) { return FillFromJson(fill, 0); });
  reader.Nested("restore", tensor.restore, [](const json& restore) -> absl::StatusOr<Restore> {
    JsonReader inner(restore, "restore");
    Restore out;
    out.kind = inner.Enum("kind", ParseName<Restore::Kind, kRestores>, Restore::Kind::kNone);
    inner.Get("index", out.index);
    GetList(inner, "rows", out.rows);
    FETTLE_RETURN_IF_ERROR(inner.Finish());
    return out;
  });
  reader.Get("is_null", tensor.is_null);
  reader.Get("nonfinite", tensor.nonfinite);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  if (!LayoutIsSane(tensor)) {
    return absl::InvalidArgumentError(
        fmt::format("tensor {}: shape and strides do not fit together", tensor.name));
  }
  return tensor;
}

json ToJson(const BoundTolerance& tolerance) {
  json out = {{"output", tolerance.output},         {"kind", NameOf(kTolerances, tolerance.kind)},
              {"rtol", JsonNumber(tolerance.rtol)}, {"atol", JsonNumber(tolerance.atol)},
              {"reduce", tolerance.reduce},         {"acc", DTypeName(tolerance.acc)}};
  if (tolerance.inner) out["inner"] = DTypeName(*tolerance.inner);
  if (tolerance.raw) out["raw"] = true;
  return out;
}

absl::StatusOr<BoundTolerance> ToleranceFromJson(const json& in) {
  JsonReader reader(in, "tolerance");
  BoundTolerance out;
  reader.Get("output", out.output);
  out.kind = reader.Enum("kind", ParseName<BoundTolerance::Kind, kTolerances>,
                         BoundTolerance::Kind::kAuto);
  reader.Get("rtol", out.rtol);
  reader.Get("atol", out.atol);
  reader.Get("reduce", out.reduce);
  out.acc = reader.Enum("acc", ParseDType, DType::kF32);
  if (reader.Has("inner")) out.inner = reader.Enum("inner", ParseDType, DType::kF32);
  if (reader.Has("raw")) reader.Get("raw", out.raw);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return out;
}

absl::StatusOr<BoundDim> DimFromJson(const json& in) {
  JsonReader reader(in, "dim");
  BoundDim dim;
  reader.Get("name", dim.name);
  reader.Get("is_list", dim.is_list);
  GetList(reader, "values", dim.values);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  if (!dim.is_list && dim.values.size() != 1) {
    return absl::InvalidArgumentError(fmt::format("dim {}: needs one value", dim.name));
  }
  return dim;
}

absl::StatusOr<BoundScalar> ScalarFromJson(const json& in) {
  JsonReader reader(in, "scalar");
  BoundScalar scalar;
  reader.Get("name", scalar.name);
  scalar.dtype = reader.Enum("dtype", ParseDType, DType::kI64);
  reader.Get("integer", scalar.integer);
  reader.Get("real", scalar.real);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return scalar;
}

absl::StatusOr<BoundPointers> PointersFromJson(const json& in) {
  JsonReader reader(in, "pointers");
  BoundPointers pointers;
  reader.Get("name", pointers.name);
  reader.Get("first", pointers.first);
  reader.Get("count", pointers.count);
  reader.Get("in_struct", pointers.in_struct);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return pointers;
}

// Reads an array of documents into `out`.
template <typename T>
void ReadAll(JsonReader& reader, std::string_view key, std::vector<T>& out,
             absl::StatusOr<T> (*parse)(const json&)) {
  reader.ForEach(key, [&](const json& entry) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(T parsed, parse(entry));
    out.push_back(std::move(parsed));
    return absl::OkStatus();
  });
}

std::string Base64Of(const std::vector<std::uint8_t>& bytes) {
  return Base64Encode({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

json ToJson(const BoundArg& arg) {
  json out = {{"kind", NameOf(kArgs, arg.kind)}};
  switch (arg.kind) {
    case BoundArg::Kind::kTensor:
    case BoundArg::Kind::kWorkspace:
      out["index"] = arg.index;
      out["offset"] = arg.offset;
      break;
    case BoundArg::Kind::kPointers:
      out["index"] = arg.index;
      break;
    case BoundArg::Kind::kValue:
      out["bytes"] = Base64Of(arg.bytes);
      break;
    case BoundArg::Kind::kStruct: {
      json fields = json::array();
      for (const auto& [at, field] : arg.fields) {
        fields.push_back({{"at", at}, {"arg", ToJson(field)}});
      }
      out["bytes"] = Base64Of(arg.bytes);
      out["align"] = arg.align;
      out["fields"] = std::move(fields);
      break;
    }
    case BoundArg::Kind::kNull:
      break;
    case BoundArg::Kind::kTensorMap:
      out["tensor_map"] = arg.tensor_map;
      if (!arg.fields.empty()) out["buffer"] = ToJson(arg.fields.front().second);
      break;
  }
  return out;
}

absl::StatusOr<BoundArg> ArgFromJson(const json& in, int depth);

absl::Status ReadStructFields(JsonReader& reader, BoundArg& arg, int depth) {
  reader.ForEach("fields", [&](const json& entry) -> absl::Status {
    JsonReader inner(entry, "struct field");
    std::pair<std::int64_t, BoundArg> field;
    inner.Get("at", field.first);
    inner.Nested("arg", field.second, [&](const json& j) { return ArgFromJson(j, depth + 1); });
    FETTLE_RETURN_IF_ERROR(inner.Finish());
    const auto size = static_cast<std::int64_t>(arg.bytes.size());
    // `table: struct` pointers take more than one address; the runner checks those against count.
    if (field.first < 0 || field.first > size - 8) {
      return absl::InvalidArgumentError("struct field: lies outside the struct");
    }
    arg.fields.push_back(std::move(field));
    return absl::OkStatus();
  });
  return absl::OkStatus();
}

absl::StatusOr<BoundArg> ArgFromJson(const json& in, int depth) {
  if (depth > 1) return absl::InvalidArgumentError("argument: structs do not nest");
  JsonReader reader(in, "argument");
  BoundArg arg;
  arg.kind = reader.Enum("kind", ParseName<BoundArg::Kind, kArgs>, BoundArg::Kind::kNull);
  std::string bytes;
  switch (arg.kind) {
    case BoundArg::Kind::kTensor:
    case BoundArg::Kind::kWorkspace:
      reader.Get("index", arg.index);
      reader.Get("offset", arg.offset);
      break;
    case BoundArg::Kind::kPointers:
      reader.Get("index", arg.index);
      break;
    case BoundArg::Kind::kValue:
    case BoundArg::Kind::kStruct: {
      reader.Get("bytes", bytes);
      FETTLE_ASSIGN_OR_RETURN(const std::string raw, Base64Decode(bytes));
      arg.bytes.assign(raw.begin(), raw.end());
      if (arg.kind == BoundArg::Kind::kValue) break;
      reader.Get("align", arg.align);
      FETTLE_RETURN_IF_ERROR(ReadStructFields(reader, arg, depth));
      break;
    }
    case BoundArg::Kind::kNull:
      break;
    case BoundArg::Kind::kTensorMap:
      reader.Get("tensor_map", arg.tensor_map);
      arg.fields.resize(1);
      reader.Nested("buffer", arg.fields.front().second,
                    [&](const json& buffer) { return ArgFromJson(buffer, depth + 1); });
      break;
  }
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return arg;
}

json ToJson(const BoundStep& step) {
  if (step.kind != BoundStep::Kind::kKernel) {
    json out = {{"kind", NameOf(kSteps, step.kind)},
                {"target", ToJson(step.target)},
                {"byte_count", step.byte_count}};
    if (step.kind == BoundStep::Kind::kCopy) out["source"] = ToJson(step.source);
    if (step.kind == BoundStep::Kind::kFill) out["fill_byte"] = step.fill_byte;
    return out;
  }
  json args = json::array();
  for (const auto& arg : step.args) args.push_back(ToJson(arg));
  return {{"kind", "kernel"},
          {"entry", step.entry},
          {"grid", step.grid},
          {"block", step.block},
          {"cluster", step.cluster},
          {"shared_bytes", step.shared_bytes},
          {"cooperative", step.cooperative},
          {"args", std::move(args)}};
}

absl::StatusOr<BoundStep> StepFromJson(const json& in) {
  JsonReader reader(in, "step");
  BoundStep step;
  step.kind = reader.Enum("kind", ParseName<BoundStep::Kind, kSteps>, BoundStep::Kind::kKernel);
  const auto parse_arg = [](const json& arg) { return ArgFromJson(arg, 0); };
  if (step.kind == BoundStep::Kind::kKernel) {
    reader.Get("entry", step.entry);
    reader.Get("grid", step.grid);
    reader.Get("block", step.block);
    reader.Get("cluster", step.cluster);
    reader.Get("shared_bytes", step.shared_bytes);
    reader.Get("cooperative", step.cooperative);
    reader.ForEach("args", [&](const json& entry) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(BoundArg arg, parse_arg(entry));
      step.args.push_back(std::move(arg));
      return absl::OkStatus();
    });
  } else {
    reader.Nested("target", step.target, parse_arg);
    reader.Get("byte_count", step.byte_count);
    if (step.kind == BoundStep::Kind::kCopy) reader.Nested("source", step.source, parse_arg);
    if (step.kind == BoundStep::Kind::kFill) reader.Get("fill_byte", step.fill_byte);
  }
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return step;
}

absl::StatusOr<BoundWorkspace> WorkspaceFromJson(const json& in) {
  JsonReader reader(in, "workspace");
  BoundWorkspace workspace;
  reader.Get("name", workspace.name);
  workspace.dtype = reader.Enum("dtype", ParseDType, DType::kU8);
  reader.Get("count", workspace.count);
  reader.Get("zero", workspace.zero);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  if (workspace.count < 0) {
    return absl::InvalidArgumentError(fmt::format("workspace {}: negative count", workspace.name));
  }
  return workspace;
}

absl::Status CheckPointers(const BoundCase& bound_case) {
  const auto size = static_cast<std::int64_t>(bound_case.tensors.size());
  for (const auto& pointers : bound_case.pointers) {
    if (pointers.first < 0 || pointers.count < 0 || pointers.first > size ||
        pointers.count > size - pointers.first) {
      return absl::InvalidArgumentError(
          fmt::format("pointers {}: members outside the case's tensors", pointers.name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view RoleName(Role role) { return NameOf(kRoles, role); }
std::optional<Role> ParseRole(std::string_view name) { return FindName<Role>(kRoles, name); }
std::string_view CaseSetName(CaseSet set) { return NameOf(kCaseSets, set); }
std::optional<CaseSet> ParseCaseSet(std::string_view name) {
  return FindName<CaseSet>(kCaseSets, name);
}

json ToJson(const BoundCase& bound_case) {
  json types = json::array(), dims = json::array(), tensors = json::array();
  json scalars = json::array(), pointers = json::array(), tolerances = json::array();
  for (const auto& [family, dtype] : bound_case.types) {
    types.push_back(json::array({family, DTypeName(dtype)}));
  }
  for (const auto& dim : bound_case.dims) {
    dims.push_back(
        {{"name", dim.name}, {"is_list", dim.is_list}, {"values", ListJson(dim.values)}});
  }
  for (const auto& tensor : bound_case.tensors) tensors.push_back(ToJson(tensor));
  for (const auto& scalar : bound_case.scalars) {
    scalars.push_back({{"name", scalar.name},
                       {"dtype", DTypeName(scalar.dtype)},
                       {"integer", scalar.integer},
                       {"real", JsonNumber(scalar.real)}});
  }
  for (const auto& entry : bound_case.pointers) {
    pointers.push_back({{"name", entry.name},
                        {"first", entry.first},
                        {"count", entry.count},
                        {"in_struct", entry.in_struct}});
  }
  for (const auto& tolerance : bound_case.tolerances) tolerances.push_back(ToJson(tolerance));
  return {{"label", bound_case.label},
          {"set", CaseSetName(bound_case.set)},
          {"weight", JsonNumber(bound_case.weight)},
          {"types", std::move(types)},
          {"dims", std::move(dims)},
          {"tensors", std::move(tensors)},
          {"scalars", std::move(scalars)},
          {"pointers", std::move(pointers)},
          {"tolerances", std::move(tolerances)},
          {"work_bytes", JsonNumber(bound_case.work_bytes)},
          {"work_flops", JsonNumber(bound_case.work_flops)},
          {"work_is_estimate", bound_case.work_is_estimate},
          {"work_from_reference", bound_case.work_from_reference},
          {"deterministic", bound_case.deterministic},
          {"linear", bound_case.linear}};
}

absl::StatusOr<BoundCase> BoundCaseFromJson(const json& in) {
  JsonReader reader(in, "case");
  BoundCase out;
  reader.Get("label", out.label);
  out.set = reader.Enum("set", ParseCaseSet, CaseSet::kChecked);
  reader.Get("weight", out.weight);
  std::vector<std::pair<std::string, std::string>> types;
  reader.Get("types", types);
  for (const auto& [family, name] : types) {
    const std::optional<DType> dtype = ParseDType(name);
    if (!dtype) reader.Fail("types", fmt::format("unknown dtype '{}'", name));
    out.types.emplace_back(family, dtype.value_or(DType::kF32));
  }
  ReadAll(reader, "dims", out.dims, DimFromJson);
  ReadAll(reader, "tensors", out.tensors, TensorFromJson);
  ReadAll(reader, "scalars", out.scalars, ScalarFromJson);
  ReadAll(reader, "pointers", out.pointers, PointersFromJson);
  ReadAll(reader, "tolerances", out.tolerances, ToleranceFromJson);
  reader.Get("work_bytes", out.work_bytes);
  reader.Get("work_flops", out.work_flops);
  reader.Get("work_is_estimate", out.work_is_estimate);
  reader.Get("work_from_reference", out.work_from_reference);
  reader.Get("deterministic", out.deterministic);
  reader.Get("linear", out.linear);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  FETTLE_RETURN_IF_ERROR(CheckPointers(out));
  return out;
}

json ToJson(const BoundPlan& plan) {
  json steps = json::array(), workspace = json::array();
  for (const auto& step : plan.steps) steps.push_back(ToJson(step));
  for (const auto& entry : plan.workspace) {
    workspace.push_back({{"name", entry.name},
                         {"dtype", DTypeName(entry.dtype)},
                         {"count", entry.count},
                         {"zero", entry.zero}});
  }
  return {{"steps", std::move(steps)}, {"workspace", std::move(workspace)}};
}

absl::StatusOr<BoundPlan> BoundPlanFromJson(const json& in) {
  JsonReader reader(in, "plan");
  BoundPlan plan;
  ReadAll(reader, "steps", plan.steps, StepFromJson);
  ReadAll(reader, "workspace", plan.workspace, WorkspaceFromJson);
  FETTLE_RETURN_IF_ERROR(reader.Finish());
  return plan;
}

}  // namespace fettle
