// SPDX-License-Identifier: Apache-2.0
#include "exporter/plan_cpp.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/plan_bind.h"
#include "core/status_macros.h"
#include "core/task_parse.h"
#include "exporter/operator_view.h"

namespace fettle {
namespace {

using nlohmann::json;

constexpr char kNum[] = "::fettle_expr::Num(INT64_C({}))";

std::string Constant(std::int64_t value) { return fmt::format(kNum, value); }

const char* IntegerType(DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return "std::int64_t";
    case DType::kI32:
      return "std::int32_t";
    case DType::kI16:
      return "std::int16_t";
    case DType::kI8:
      return "signed char";
    case DType::kU8:
      return "unsigned char";
    case DType::kBool:
      return "bool";
    case DType::kF32:
      return "float";
    case DType::kF64:
      return "double";
    default:
      return nullptr;
  }
}

class Emitter {
 public:
  Emitter(const TaskModel& model, const KernelSpec& kernel,
          std::map<std::string, std::string> names)
      : model_(model), kernel_(kernel), names_(std::move(names)) {}

  absl::StatusOr<PlanCpp> Run() {
    FETTLE_RETURN_IF_ERROR(Workspace());
    out_.plan = out_.workspace;
    out_.plan += zeroing_;
    FETTLE_RETURN_IF_ERROR(Steps(kernel_.launches, "  "));
    return std::move(out_);
  }

 private:
  absl::Status Workspace();
  absl::Status Steps(const json& steps, const std::string& indent);
  absl::Status Step(const json& step, const std::string& indent);
  absl::Status Kernel(const json& step, const std::string& indent);
  absl::Status FillOrCopy(const json& step, const std::string& indent);
  // Declares variable `name` that holds the argument; the kernel's parameter is its address.
  absl::StatusOr<std::string> Argument(const json& arg, const std::string& name);
  absl::StatusOr<std::string> Value(const json& arg, const std::string& name);
  absl::StatusOr<std::string> Scalar(const ArgDecl& arg, const std::string& name);
  absl::StatusOr<std::string> Struct(const json& arg, const std::string& name);
  absl::StatusOr<std::string> Address(const json& arg);  // An expression of type void*.
  // Elements of one member of an array of tensors, from `offset` on.
  absl::StatusOr<std::string> MemberElements(const ArgDecl& arg, const json& step,
                                             const std::string& offset) const;
  absl::StatusOr<std::string> Named(const std::string& name, const std::string& variable);

  absl::StatusOr<std::string> Text(const json& text, bool exact) const {
    FETTLE_ASSIGN_OR_RETURN(const Expr expr,
                            Expr::Parse(text.is_string() ? text.get<std::string>() : text.dump()));
    return EmitExpr(expr, names_, exact);
  }
  absl::StatusOr<std::string> TextOr(const json& step, const char* key, std::int64_t otherwise,
                                     bool exact) const {
    if (!step.contains(key)) return Constant(otherwise);
    return Text(step[key], exact);
  }
  const json* FindWorkspace(const std::string& name) const {
    for (const json& entry : kernel_.workspace) {
      if (entry.value("name", "") == name) return &entry;
    }
    return nullptr;
  }
  TypeRef RefOf(const std::string& text) const {
    if (!text.empty() && text[0] == '$') return {text.substr(1), DType::kF32};
    return {"", ParseDType(text).value_or(DType::kI64)};
  }
  // Bytes of one element of a buffer.
  std::string ElementSize(const std::string& buffer) const {
    if (const json* entry = FindWorkspace(buffer))
      return ElementSizeCpp(RefOf(entry->value("dtype", "u8")));
    const ArgDecl* arg = model_.FindArg(buffer);
    if (arg == nullptr) return "1";
    return ElementSizeCpp(arg->each != nullptr ? arg->each->type : arg->type);
  }
  absl::Status Unsupported(const std::string& what) const {
    return absl::FailedPreconditionError(fmt::format(
        "export: the launch plan has {}, which exported headers cannot express yet", what));
  }

  const TaskModel& model_;
  const KernelSpec& kernel_;
  std::map<std::string, std::string> names_;
  PlanCpp out_;
  std::string zeroing_;
};

absl::Status Emitter::Workspace() {
  for (const json& entry : kernel_.workspace) {
    std::string bytes =
        fmt::format("::fettle_expr::Num({})", ElementSizeCpp(RefOf(entry.value("dtype", "u8"))));
    for (const json& extent : entry.value("shape", json::array())) {
      FETTLE_ASSIGN_OR_RETURN(const std::string text, Text(extent, /*exact=*/true));
      bytes = fmt::format("::fettle_expr::Mul({}, {})", bytes, text);
    }
    const std::string name = entry.value("name", "");
    out_.workspace += fmt::format(
        "  const ::fettle_expr::Checked n_{0} = {1};\n"
        "  void* const w_{0} = w.take(n_{0});\n  (void)w_{0};\n",
        name, bytes);
    if (entry.value("init", "") == "zero") {
      zeroing_ += fmt::format("  if (!q.fill(w_{0}, n_{0}, 0)) return false;\n", name);
    }
  }
  return absl::OkStatus();
}

absl::Status Emitter::Steps(const json& steps, const std::string& indent) {
  for (const json& step : steps) FETTLE_RETURN_IF_ERROR(Step(step, indent));
  return absl::OkStatus();
}

absl::Status Emitter::Step(const json& step, const std::string& indent) {
  std::string inner = indent;
  if (step.contains("when")) {
    FETTLE_ASSIGN_OR_RETURN(const std::string when, Text(step["when"], false));
    out_.plan += fmt::format(
        "{0}{{\n{0}const ::fettle_expr::Checked when = {1};\n"
        "{0}if (!when.ok) return false;\n{0}if (when.value != 0) {{\n",
        indent, when);
    inner += "  ";
  }
  if (step.contains("repeat")) {
    const auto variable = step["repeat"].begin();
    FETTLE_ASSIGN_OR_RETURN(const std::string count, Text(variable.value(), false));
    out_.plan += fmt::format(
        "{0}{{\n{0}const ::fettle_expr::Checked count_{1} = {2};\n"
        "{0}if (!count_{1}.ok || count_{1}.value < 0) return false;\n"
        "{0}for (std::int64_t i_{1} = 0; i_{1} < count_{1}.value; ++i_{1}) {{\n"
        "{0}  const ::fettle_expr::Checked v_{1} = ::fettle_expr::Num(i_{1});\n{0}  (void)v_{1};\n",
        inner, variable.key(), count);
    names_[variable.key()] = "v_" + variable.key();
    FETTLE_RETURN_IF_ERROR(Steps(step["steps"], inner + "  "));
    names_.erase(variable.key());
    out_.plan += inner + "}\n" + inner + "}\n";
  } else if (step.contains("fill") || step.contains("copy")) {
    FETTLE_RETURN_IF_ERROR(FillOrCopy(step, inner));
  } else {
    FETTLE_RETURN_IF_ERROR(Kernel(step, inner));
  }
  if (step.contains("when")) out_.plan += indent + "}\n" + indent + "}\n";
  return absl::OkStatus();
}

absl::Status Emitter::Kernel(const json& step, const std::string& indent) {
  const std::string entry = step.value("kernel", "");
  auto found = std::find(out_.entries.begin(), out_.entries.end(), entry);
  if (found == out_.entries.end()) found = out_.entries.insert(found, entry);
  const auto index = std::distance(out_.entries.begin(), found);
  std::string body, parameters;
  const json& args = step["args"];
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string name = fmt::format("a{}", i);
    FETTLE_ASSIGN_OR_RETURN(const std::string text, Argument(args[i], name));
    body += indent + "  " + text + "\n";
    parameters += fmt::format("const_cast<void*>(static_cast<const void*>(&{})), ", name);
  }
  const auto extents = [&](const char* key, const char* variable) -> absl::Status {
    std::vector<std::string> texts(3, Constant(1));
    const json list = step.value(key, json::array());
    for (std::size_t i = 0; i < list.size() && i < 3; ++i) {
      FETTLE_ASSIGN_OR_RETURN(texts[i], Text(list[i], /*exact=*/true));
    }
    body += fmt::format("{}  const ::fettle_expr::Checked {}[3] = {{{}, {}, {}}};\n", indent,
                        variable, texts[0], texts[1], texts[2]);
    return absl::OkStatus();
  };
  FETTLE_RETURN_IF_ERROR(extents("grid", "grid"));
  FETTLE_RETURN_IF_ERROR(extents("block", "block"));
  FETTLE_RETURN_IF_ERROR(extents("cluster", "cluster"));
  FETTLE_ASSIGN_OR_RETURN(const std::string shared, TextOr(step, "shared", 0, false));
  out_.plan += fmt::format(
      "{0}{{  // {1}\n{0}  bool ok = true;\n{2}"
      "{0}  void* parameters[] = {{{3}nullptr}};\n"
      "{0}  if (!ok || !q.kernel({4}, grid, block, cluster, {5}, {6}, {7}, parameters)) return "
      "false;\n"
      "{0}}}\n",
      indent, entry, body, parameters, index, step.contains("cluster"), shared,
      step.value("cooperative", false));
  return absl::OkStatus();
}

absl::Status Emitter::FillOrCopy(const json& step, const std::string& indent) {
  const bool fill = step.contains("fill");
  const std::string buffer = step[fill ? "fill" : "copy"].get<std::string>();
  json from = {{"buffer", buffer}, {"offset", step.value("offset", json("0"))}};
  if (step.contains("member")) from["member"] = step["member"];
  FETTLE_ASSIGN_OR_RETURN(const std::string source, Address(from));
  FETTLE_ASSIGN_OR_RETURN(const std::string offset, TextOr(step, "offset", 0, false));
  // Without a count: up to the buffer's end.
  std::string elements;
  if (step.contains("count")) {
    FETTLE_ASSIGN_OR_RETURN(elements, Text(step["count"], false));
  } else if (FindWorkspace(buffer) != nullptr) {
    elements =
        fmt::format("::fettle_expr::Sub(::fettle_expr::Div(n_{}, ::fettle_expr::Num({})), {})",
                    buffer, ElementSize(buffer), offset);
  } else {
    const ArgDecl* arg = model_.FindArg(buffer);
    if (arg == nullptr) return Unsupported(fmt::format("a fill of '{}'", buffer));
    if (arg->each == nullptr) {
      elements = fmt::format("::fettle_expr::Sub(c.extent_{}, {})", buffer, offset);
    } else {
      FETTLE_ASSIGN_OR_RETURN(elements, MemberElements(*arg, step, offset));
    }
  }
  const std::string bytes =
      fmt::format("::fettle_expr::Mul({}, ::fettle_expr::Num({}))", elements, ElementSize(buffer));
  if (fill) {
    out_.plan += fmt::format(
        "{0}{{\n{0}  bool ok = true;\n{0}  void* const target = {1};\n"
        "{0}  if (!ok || (target != nullptr && !q.fill(target, {2}, {3}))) return false;\n{0}}}\n",
        indent, source, bytes, step.value("byte", 0));
    return absl::OkStatus();
  }
  const json to = {{"buffer", step["to"]}, {"offset", step.value("to_offset", json("0"))}};
  FETTLE_ASSIGN_OR_RETURN(const std::string target, Address(to));
  out_.plan += fmt::format(
      "{0}{{\n{0}  bool ok = true;\n{0}  void* const source = {1};\n{0}  void* const target = "
      "{2};\n"
      "{0}  if (!ok || !q.copy(target, source, {3})) return false;\n{0}}}\n",
      indent, source, target, bytes);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Emitter::MemberElements(const ArgDecl& arg, const json& step,
                                                    const std::string& offset) const {
  if (!step.contains("member") || arg.each->strides.has_value()) {
    return Unsupported("a fill of a whole array, or of a strided member");
  }
  std::map<std::string, std::string> names = names_;
  FETTLE_ASSIGN_OR_RETURN(names["g"], Text(step["member"], false));
  std::string elements = Constant(1);
  for (const Expr& extent : arg.each->shape) {
    FETTLE_ASSIGN_OR_RETURN(const std::string size, EmitExpr(extent, names, /*exact=*/true));
    elements = fmt::format("::fettle_expr::Mul({}, {})", elements, size);
  }
  return fmt::format("::fettle_expr::Sub({}, {})", elements, offset);
}

absl::StatusOr<std::string> Emitter::Address(const json& arg) {
  const std::string name = arg.value("buffer", "");
  FETTLE_ASSIGN_OR_RETURN(const std::string offset, TextOr(arg, "offset", 0, false));
  const std::string field = CppIdentifier(name);
  std::string base =
      FindWorkspace(name) != nullptr ? "w_" + name : fmt::format("c.args.{}.data", field);
  if (arg.contains("member")) {
    FETTLE_ASSIGN_OR_RETURN(const std::string member, Text(arg["member"], false));
    base = fmt::format("member(c.args.{}, {}, ok)", field, member);
  } else if (const ArgDecl* found = model_.FindArg(name);
             found != nullptr && found->each != nullptr) {
    base = fmt::format("c.args.{}.device", field);
  }
  return fmt::format("::fettle::Enqueue::at({}, {}, {}, ok)", base, offset, ElementSize(name));
}

absl::StatusOr<std::string> Emitter::Scalar(const ArgDecl& arg, const std::string& name) {
  if (!arg.type.family.empty()) return Unsupported("a scalar of a family's dtype");
  const DType dtype = arg.type.dtype;
  const char* type = IntegerType(dtype);
  if (arg.value_kind == ArgDecl::Value::kNumber) {
    if (type != nullptr && IsFloat(dtype)) {
      return fmt::format(
          "const {} {} = static_cast<{}>({:.17g}{});", type, name, type, arg.number,
          arg.number == static_cast<double>(static_cast<std::int64_t>(arg.number)) ? ".0" : "");
    }
    if (type != nullptr) {
      return fmt::format("const {} {} = {};", type, name, static_cast<std::int64_t>(arg.number));
    }
    std::string bytes;
    for (const std::uint8_t byte : EncodeReal(dtype, arg.number))
      bytes += fmt::format("{}, ", byte);
    return fmt::format("alignas(8) const unsigned char {}[] = {{{}}};", name, bytes);
  }
  if (type == nullptr)
    return Unsupported(fmt::format("the scalar {} of dtype {}", arg.name, DTypeName(dtype)));
  if (arg.value_kind == ArgDecl::Value::kPerCase) {
    return fmt::format("const {0} {1} = static_cast<{0}>(c.args.{2});", type, name,
                       CppIdentifier(arg.name));
  }
  FETTLE_ASSIGN_OR_RETURN(const std::string value, EmitExpr(arg.value, names_, false));
  return fmt::format("{0} {1} = 0; ok = ok && ::fettle::Enqueue::to({2}, {1});", type, name, value);
}

absl::StatusOr<std::string> Emitter::Named(const std::string& name, const std::string& variable) {
  if (FindWorkspace(name) != nullptr) {
    return fmt::format("const void* {} = w_{};", variable, name);
  }
  if (const ArgDecl* arg = model_.FindArg(name)) {
    if (arg->role == Role::kScalar) return Scalar(*arg, variable);
    if (arg->role == Role::kNone) return fmt::format("const void* {} = nullptr;", variable);
    if (arg->each != nullptr) {
      return fmt::format("const void* {} = c.args.{}.device;", variable, CppIdentifier(name));
    }
    return fmt::format("const void* {} = c.args.{}.data;", variable, CppIdentifier(name));
  }
  const auto found = names_.find(name);
  if (found == names_.end()) return Unsupported(fmt::format("the argument '{}'", name));
  return fmt::format("std::int64_t {0} = 0; ok = ok && ::fettle::Enqueue::to({1}, {0});", variable,
                     found->second);
}

absl::StatusOr<std::string> Emitter::Value(const json& arg, const std::string& name) {
  const TypeRef ref = RefOf(arg.value("dtype", "i64"));
  if (!ref.family.empty()) return Unsupported("a value of a family's dtype");
  if (IsFloat(ref.dtype) && arg["value"].is_string()) {
    if (const auto number = ParseReal(arg["value"].get<std::string>())) {
      std::string bytes;
      for (const std::uint8_t byte : EncodeReal(ref.dtype, *number))
        bytes += fmt::format("{}, ", byte);
      return fmt::format("alignas(8) const unsigned char {}[] = {{{}}};", name, bytes);
    }
  }
  const char* type = IntegerType(ref.dtype);
  if (type == nullptr)
    return Unsupported(fmt::format("a computed value of dtype {}", DTypeName(ref.dtype)));
  FETTLE_ASSIGN_OR_RETURN(const std::string value, Text(arg["value"], false));
  return fmt::format("{0} {1} = 0; ok = ok && ::fettle::Enqueue::to({2}, {1});", type, name, value);
}

absl::StatusOr<std::string> Emitter::Struct(const json& arg, const std::string& name) {
  std::string text =
      fmt::format("alignas({}) unsigned char {}[{}] = {{}};", arg["align"].get<std::int64_t>(),
                  name, arg["size"].get<std::int64_t>());
  std::size_t number = 0;
  for (const json& field : arg["fields"]) {
    const auto at = field["at"].get<std::int64_t>();
    const std::string inner = fmt::format("{}_{}", name, number++);
    const std::string named = field.contains("arg") ? field["arg"].get<std::string>() : "";
    const ArgDecl* found = named.empty() ? nullptr : model_.FindArg(named);
    if (found != nullptr && found->in_struct) {
      text += fmt::format(
          " ok = ok && c.args.{0}.host != nullptr; if (ok) std::memcpy({1} + {2}, c.args.{0}.host, "
          "static_cast<std::size_t>(c.args.{0}.count) * sizeof(void*));",
          CppIdentifier(named), name, at);
      continue;
    }
    std::string value;
    if (!named.empty()) {
      FETTLE_ASSIGN_OR_RETURN(value, Named(named, inner));
    } else if (field.contains("buffer")) {
      FETTLE_ASSIGN_OR_RETURN(const std::string address, Address(field));
      value = fmt::format("const void* {} = {};", inner, address);
    } else {
      FETTLE_ASSIGN_OR_RETURN(value, Value(field, inner));
    }
    text += fmt::format(" {0} std::memcpy({1} + {2}, &{3}, sizeof {3});", value, name, at, inner);
  }
  return text;
}

absl::StatusOr<std::string> Emitter::Argument(const json& arg, const std::string& name) {
  if (arg.is_null()) return fmt::format("const void* {} = nullptr;", name);
  if (arg.is_string()) return Named(arg.get<std::string>(), name);
  if (arg.contains("value")) return Value(arg, name);
  if (arg.contains("struct")) return Struct(arg["struct"], name);
  if (arg.contains("tensor_map")) return Unsupported("a tensor map");
  FETTLE_ASSIGN_OR_RETURN(const std::string address, Address(arg));
  return fmt::format("const void* {} = {};", name, address);
}

}  // namespace

std::string ElementSizeCpp(const TypeRef& type) {
  if (!type.family.empty()) return fmt::format("c.size_{}.value", type.family);
  return std::to_string(SizeOf(type.dtype));
}

absl::StatusOr<std::string> EmitExpr(const Expr& expr,
                                     const std::map<std::string, std::string>& names, bool exact) {
  FETTLE_ASSIGN_OR_RETURN(std::string text, expr.EmitCpp(names));
  if (!exact) return text;
  constexpr std::string_view kFrom = "::fettle_expr::Div(", kTo = "::fettle_expr::DivExact(";
  for (std::size_t at = text.find(kFrom); at != std::string::npos;
       at = text.find(kFrom, at + kTo.size())) {
    text.replace(at, kFrom.size(), kTo);
  }
  return text;
}

absl::StatusOr<PlanCpp> EmitPlan(const TaskModel& model, const KernelSpec& kernel,
                                 const std::map<std::string, std::string>& names) {
  return Emitter(model, kernel, names).Run();
}

}  // namespace fettle
