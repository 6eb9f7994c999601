// SPDX-License-Identifier: Apache-2.0
#include "core/status_macros.h"
#include "exporter/operator_writer.h"

namespace fettle {

void OperatorWriter::CallFields() {
  Line(
      "// One call with what follows from it.\nstruct Call {{\n  const Types& types;\n  const "
      "Shape& shape;\n  const Args& args;");
  for (const TypeFamily& family : model_.types)
    Line("  ::fettle_expr::Checked size_{};", family.name);
  for (const DimDecl* dim : Plain()) Line("  ::fettle_expr::Checked d_{};", dim->name);
  for (const auto* lists : {&view_.lists, &view_.derived_lists}) {
    for (const DimDecl* dim : *lists) Line("  ::fettle_expr::List l_{};", dim->name);
  }
  for (const ArgDecl* arg : view_.tensors) {
    if (!arg->shape.empty()) {
      Line("  ::fettle_expr::Checked s_{0}[{1}], t_{0}[{1}];", arg->name, arg->shape.size());
    }
    Line("  ::fettle_expr::Checked extent_{};", arg->name);
  }
  Line(
      "\n  Call(const Types& types_in, const Shape& shape_in, const Args& args_in)\n"
      "      : types(types_in), shape(shape_in), args(args_in) {{\n    Call& c = *this;\n    "
      "(void)c;");
  for (const TypeFamily& family : model_.types) {
    Line("    size_{0} = ::fettle_expr::Num(::fettle::dtype_size(types.{0}));", family.name);
  }
}

// Dims and lists in the order of the task, so that each finds what it is made of.
absl::Status OperatorWriter::CallDims() {
  const auto names = NamesFor(nullptr, "");
  for (const DimDecl* dim : view_.inputs) {
    Line("    d_{} = ::fettle_expr::Num(shape.{});", dim->name, CppIdentifier(dim->name));
  }
  for (const DimDecl* dim : view_.computed) {
    FETTLE_ASSIGN_OR_RETURN(const std::string value, EmitExpr(*dim->let, names, false));
    Line("    d_{} = {};", dim->name, value);
  }
  for (const DimDecl* dim : view_.lists) {
    Line(
        "    l_{0}.values.assign(shape.{1}.data, shape.{1}.data + (shape.{1}.data == nullptr ? 0 : "
        "shape.{1}.count));",
        dim->name, CppIdentifier(dim->name));
  }
  for (const DimDecl* dim : view_.derived_lists) {
    auto inner = names;
    inner["i"] = "::fettle_expr::Num(i)";
    FETTLE_ASSIGN_OR_RETURN(const std::string length, EmitExpr(dim->length, names, false));
    FETTLE_ASSIGN_OR_RETURN(const std::string value, EmitExpr(*dim->let, inner, false));
    Line(
        "    {{\n      const ::fettle_expr::Checked length = {};\n"
        "      l_{}.ok = length.ok;\n"
        "      for (std::int64_t i = 0; length.ok && i < length.value; ++i) {{\n"
        "        const ::fettle_expr::Checked v = {};\n"
        "        l_{}.ok = l_{}.ok && v.ok;\n        l_{}.values.push_back(v.value);\n      }}\n   "
        " }}",
        length, dim->name, value, dim->name, dim->name, dim->name);
  }
  return absl::OkStatus();
}

// Each tensor's sizes, strides, and elements from its first to its last one.
absl::Status OperatorWriter::CallExtents() {
  const auto names = NamesFor(nullptr, "");
  for (const ArgDecl* arg : view_.tensors) {
    const std::size_t rank = arg->shape.size();
    for (std::size_t d = 0; d < rank; ++d) {
      FETTLE_ASSIGN_OR_RETURN(const std::string size, EmitExpr(arg->shape[d], names, true));
      Line("    s_{}[{}] = {};", arg->name, d, size);
    }
    for (std::size_t d = rank; d-- > 0;) {
      if (arg->strides.has_value()) {
        FETTLE_ASSIGN_OR_RETURN(const std::string step, EmitExpr((*arg->strides)[d], names, true));
        Line("    t_{}[{}] = {};", arg->name, d, step);
      } else if (d + 1 == rank) {
        Line("    t_{}[{}] = ::fettle_expr::Num(1);", arg->name, d);
      } else {
        Line(
            "    t_{0}[{1}] = ::fettle_expr::Mul(t_{0}[{2}], ::fettle_expr::Max(s_{0}[{2}], "
            "::fettle_expr::Num(1)));",
            arg->name, d, d + 1);
      }
    }
    if (rank == 0) {
      Line("    extent_{} = ::fettle_expr::Num(1);", arg->name);
    } else {
      Line("    extent_{0} = extent(s_{0}, t_{0}, {1});", arg->name, rank);
    }
  }
  return absl::OkStatus();
}

absl::Status OperatorWriter::CallStruct() {
  CallFields();
  FETTLE_RETURN_IF_ERROR(CallDims());
  FETTLE_RETURN_IF_ERROR(CallExtents());
  Line(
      "  }}\n\n private:\n"
      "  // Elements from the first to the last addressed, plus one; 0 when empty.\n"
      "  static ::fettle_expr::Checked extent(const ::fettle_expr::Checked* sizes, const "
      "::fettle_expr::Checked* steps,\n"
      "                                       int rank) {{\n"
      "    ::fettle_expr::Checked last = ::fettle_expr::Num(1);\n"
      "    for (int d = 0; d < rank; ++d) {{\n"
      "      if (!sizes[d].ok || sizes[d].value < 0) return ::fettle_expr::Fail();\n"
      "      if (sizes[d].value == 0) return ::fettle_expr::Num(0);\n"
      "      last = ::fettle_expr::Add(last, ::fettle_expr::Mul(::fettle_expr::Num(sizes[d].value "
      "- 1), steps[d]));\n"
      "    }}\n    return last;\n  }}\n}};\n");
  return absl::OkStatus();
}

}  // namespace fettle
