// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/status_macros.h"
#include "exporter/operator_writer.h"

namespace fettle {
namespace {

bool IsListed(const std::vector<const DimDecl*>& dims, std::string_view name) {
  return std::any_of(dims.begin(), dims.end(),
                     [&](const DimDecl* dim) { return dim->name == name; });
}

}  // namespace

// The operator's domain, as the task declares it.
absl::Status OperatorWriter::Check() {
  Line(
      "// What the call breaks of the operator's contract; null: nothing.\ninline const char* "
      "check(const Call& c) {{\n  (void)c;");
  for (const TypeFamily& family : model_.types) {
    std::string test;
    for (const DType dtype : family.dtypes) {
      test += fmt::format("{}c.types.{} == {}", test.empty() ? "" : " || ", family.name,
                          CppDType(dtype));
    }
    Line("  if (!({})) return {};", test,
         CppQuoted(fmt::format("{}: a dtype that the operator does not take", family.name)));
  }
  const auto names = NamesFor(nullptr, "");
  const auto available = [&](const Expr& expr) {
    for (const std::string& name : expr.Names()) {
      if (!names.contains(name)) return false;
    }
    return true;
  };
  for (const DimDecl* dim : Plain()) {
    Line("  if (!c.d_{}.ok) return {};", dim->name, CppQuoted(dim->name + ": overflows 64 bits"));
    if (dim->let.has_value()) {
      if (IsListed(view_.inputs, dim->name)) {
        Line("  if (c.d_{}.value < 0) return {};", dim->name, CppQuoted(dim->name + ": negative"));
      }
      continue;
    }
    std::string test;
    if (!dim->in.empty()) {
      for (const std::int64_t value : dim->in) {
        test += fmt::format("{}c.d_{}.value == INT64_C({})", test.empty() ? "" : " || ", dim->name,
                            value);
      }
    } else {
      FETTLE_ASSIGN_OR_RETURN(const std::string low, EmitExpr(dim->min, names, false));
      FETTLE_ASSIGN_OR_RETURN(const std::string high, EmitExpr(dim->max, names, false));
      FETTLE_ASSIGN_OR_RETURN(const std::string step, EmitExpr(dim->multiple_of, names, false));
      test = fmt::format("within(c.d_{}, {}, {}, {})", dim->name, low, high, step);
    }
    if (dim->or_value.has_value()) {
      FETTLE_ASSIGN_OR_RETURN(const std::string other, EmitExpr(*dim->or_value, names, false));
      test += fmt::format(" || c.d_{}.value == ({}).value", dim->name, other);
    }
    Line("  if (!({})) return {};", test,
         CppQuoted(dim->name + ": outside of the operator's domain"));
  }
  for (const Expr& condition : model_.valid) {
    if (!available(condition)) continue;
    FETTLE_ASSIGN_OR_RETURN(const std::string text, EmitExpr(condition, names, false));
    Line("  if (!holds({})) return {};", text, CppQuoted("not so: " + condition.text()));
  }
  for (const DimDecl* dim : view_.lists) {
    FETTLE_ASSIGN_OR_RETURN(const std::string length, EmitExpr(dim->length, names, false));
    Line("  if (static_cast<std::int64_t>(c.l_{}.values.size()) != ({}).value) return {};",
         dim->name, length, CppQuoted(dim->name + ": another number of entries than the dims say"));
  }
  for (const ArgDecl* arg : view_.pointers) {
    if (!available(arg->count)) continue;
    FETTLE_ASSIGN_OR_RETURN(const std::string count, EmitExpr(arg->count, names, false));
    const std::string field = CppIdentifier(arg->name);
    Line("  if (c.args.{0}.{1} != nullptr && c.args.{0}.count != ({2}).value) return {3};", field,
         arg->in_struct ? "host" : "device", count,
         CppQuoted(arg->name + ": another number of members than the dims say"));
  }
  Line("  return nullptr;\n}}\n");
  return absl::OkStatus();
}

absl::Status OperatorWriter::Tensors() {
  Line(
      "inline int tensors(const Call& c, ::fettle::TensorFacts* out) {{\n  (void)c;\n  (void)out;");
  int index = 0;
  for (const ArgDecl* arg : view_.tensors) {
    const std::string field = CppIdentifier(arg->name);
    const std::string element = ElementSizeCpp(arg->type);
    std::string optional = "false";
    if (!arg->optional_dim.empty()) optional = fmt::format("c.d_{}.value == 0", arg->optional_dim);
    const std::string rank = std::to_string(arg->shape.size());
    Line(
        "  out[{}] = {{{}, c.args.{}.data, ::fettle_expr::Mul(c.extent_{}, "
        "::fettle_expr::Num({})), {}, {},\n"
        "            {}, {}, {}, c.args.{}.dtype, {}, c.args.{}.rank, {}, {}, c.args.{}.sizes, "
        "c.args.{}.strides}};",
        index++, CppQuoted(arg->name + ": null, though it has elements"), field, arg->name, element,
        element, arg->align > 0 ? arg->align : 256,
        arg->role == Role::kOut || arg->role == Role::kInOut ? "true" : "false", optional,
        WantedDType(arg->type), field, rank, field,
        arg->shape.empty() ? "nullptr" : "c.s_" + arg->name,
        arg->shape.empty() ? "nullptr" : "c.t_" + arg->name, field, field);
  }
  // Members of arrays are not seen here; a call with arrays that write is never empty by itself.
  bool writes = false;
  for (const ArgDecl* arg : view_.pointers) {
    writes = writes || arg->each->role == Role::kOut || arg->each->role == Role::kInOut;
  }
  if (writes) {
    Line(
        "  out[{}] = {{\"\", &c, ::fettle_expr::Num(1), 1, 1, true, true, ::fettle::DType::kAny, "
        "::fettle::DType::kAny, 0,\n"
        "            -1, nullptr, nullptr, nullptr, nullptr}};",
        index++);
  }
  Line("  return {};\n}}\n", index);
  if (index > 48)
    return absl::FailedPreconditionError("export: the operator has more than 48 tensors");
  return absl::OkStatus();
}

}  // namespace fettle
