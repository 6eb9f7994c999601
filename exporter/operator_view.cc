// SPDX-License-Identifier: Apache-2.0
#include "exporter/operator_view.h"

#include <cctype>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/expr.h"

namespace fettle {
namespace {

void AddNames(const nlohmann::json& value, std::set<std::string>& names) {
  if (value.is_string()) {
    const absl::StatusOr<Expr> expr = Expr::Parse(value.get<std::string>());
    if (expr.ok()) names.merge(expr->Names());
  } else if (value.is_structured()) {
    for (const auto& member : value) AddNames(member, names);
  }
}

}  // namespace

std::set<std::string> ListDerivedDims(const TaskModel& model) {
  std::set<std::string> names;
  for (const DimDecl& dim : model.dims) {
    if (dim.is_list) names.insert(dim.name);
    if (!dim.let.has_value()) continue;
    for (const std::string& name : dim.let->Names()) {
      if (names.contains(name)) names.insert(dim.name);
    }
  }
  return names;
}

OperatorView ViewOf(const BundleModel& bundle) {
  const TaskModel& model = bundle.task->model();
  OperatorView view;
  const std::set<std::string> from_lists = ListDerivedDims(model);
  // Names in launches, workspaces, guards, constraints, and in the shapes of arrays' members, whose
  // volume guards limit.
  std::set<std::string> needed;
  for (const ArgDecl& arg : model.args) {
    if (arg.each == nullptr) continue;
    needed.merge(arg.count.Names());
    for (const Expr& extent : arg.each->shape) needed.merge(extent.Names());
  }
  for (const BundleKernel& kernel : bundle.kernels) {
    AddNames(kernel.kernel.launches, needed);
    AddNames(kernel.kernel.workspace, needed);
    for (const auto* list : {&kernel.kernel.guards, &kernel.kernel.constraints}) {
      for (const Expr& expr : *list) needed.merge(expr.Names());
    }
  }
  // What a derived list that is needed needs itself; later dims first.
  for (auto dim = model.dims.rbegin(); dim != model.dims.rend(); ++dim) {
    if (dim->is_list && dim->let.has_value() && needed.contains(dim->name)) {
      needed.merge(dim->let->Names());
    }
  }
  for (const DimDecl& dim : model.dims) {
    if (dim.is_list) {
      if (!needed.contains(dim.name)) continue;
      (dim.let.has_value() ? view.derived_lists : view.lists).push_back(&dim);
    } else if (dim.let.has_value() && !from_lists.contains(dim.name)) {
      view.computed.push_back(&dim);
    } else {
      view.inputs.push_back(&dim);
    }
  }
  for (const ArgDecl& arg : model.args) {
    if (arg.role == Role::kScalar) {
      if (arg.value_kind == ArgDecl::Value::kPerCase) view.scalars.push_back(&arg);
    } else if (arg.each != nullptr) {
      view.pointers.push_back(&arg);
    } else if (arg.role != Role::kNone) {
      view.tensors.push_back(&arg);
    }
  }
  return view;
}

std::string CppIdentifier(std::string_view name) {
  static const std::set<std::string_view> kKeywords = {
      "alignas", "and",     "asm",      "auto",     "bool",    "break",     "case",    "catch",
      "char",    "class",   "const",    "continue", "default", "delete",    "do",      "double",
      "else",    "enum",    "explicit", "export",   "extern",  "false",     "float",   "for",
      "friend",  "goto",    "if",       "inline",   "int",     "long",      "mutable", "namespace",
      "new",     "not",     "operator", "or",       "private", "protected", "public",  "register",
      "return",  "short",   "signed",   "sizeof",   "static",  "struct",    "switch",  "template",
      "this",    "throw",   "true",     "try",      "typedef", "typename",  "union",   "unsigned",
      "using",   "virtual", "void",     "volatile", "while",   "xor"};
  std::string out;
  for (const char c : name) out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) != 0) out = "op_" + out;
  if (kKeywords.contains(out)) out += '_';
  return out;
}

std::string OperatorNamespace(const BundleModel& model) {
  return fmt::format("{}_{}", CppIdentifier(model.task->name()), model.short_digest());
}

std::string CppDType(DType dtype) {
  return dtype == DType::kBool ? "::fettle::DType::boolean"
                               : fmt::format("::fettle::DType::{}", DTypeName(dtype));
}

std::string CppQuoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace fettle
