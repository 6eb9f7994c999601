// SPDX-License-Identifier: Apache-2.0
#include "core/target.h"
#include "exporter/operator_writer.h"

namespace fettle {

// Dims, lists and element sizes as members of `c`; tunables and target values as constants.
std::map<std::string, std::string> OperatorWriter::NamesFor(const BundleKernel* kernel,
                                                            const std::string& target) const {
  std::map<std::string, std::string> names;
  for (const DimDecl* dim : Plain()) names[dim->name] = "c.d_" + dim->name;
  for (const auto* lists : {&view_.lists, &view_.derived_lists}) {
    for (const DimDecl* dim : *lists) names[dim->name] = "c.l_" + dim->name;
  }
  for (const TypeFamily& family : model_.types) {
    names[fmt::format("sizeof({})", family.name)] = "c.size_" + family.name;
  }
  if (kernel != nullptr) {
    for (const auto& [name, value] : kernel->values) {
      names[name] = fmt::format("::fettle_expr::Num(INT64_C({}))", value);
    }
  }
  if (const absl::StatusOr<Target> found = FindTarget(target); found.ok()) {
    for (const auto& [name, value] : TargetVariables(*found)) {
      names["target." + name] = fmt::format("::fettle_expr::Num(INT64_C({}))", value);
    }
    names["target.cus"] = "multiprocessors";
  }
  return names;
}

std::string OperatorWriter::TypeOf(const ArgDecl& arg) const {
  const bool input = arg.role == Role::kIn || arg.role == Role::kIndex;
  const char* qualifier = input ? "const " : "";
  if (!arg.type.family.empty()) return fmt::format("{}void", qualifier);
  static const std::map<DType, const char*> kTypes = {
      {DType::kF64, "double"},       {DType::kF32, "float"},        {DType::kI64, "std::int64_t"},
      {DType::kI32, "std::int32_t"}, {DType::kI16, "std::int16_t"}, {DType::kI8, "std::int8_t"},
      {DType::kU8, "std::uint8_t"},  {DType::kBool, "bool"}};
  const auto found = kTypes.find(arg.type.dtype);
  return fmt::format("{}{}", qualifier, found == kTypes.end() ? "void" : found->second);
}

void OperatorWriter::Structs() {
  Line("// The dtypes of one call.\nstruct Types {{");
  for (const TypeFamily& family : model_.types) {
    std::string all;
    for (const DType dtype : family.dtypes)
      all += fmt::format("{}{}", all.empty() ? "" : ", ", DTypeName(dtype));
    Line("  ::fettle::DType {} = {};  // {}", family.name, CppDType(family.dtypes.front()), all);
  }
  Line("}};\n\n// The sizes of one call.\nstruct Shape {{");
  for (const DimDecl* dim : view_.inputs) Line("  std::int64_t {} = 0;", CppIdentifier(dim->name));
  for (const DimDecl* dim : view_.lists)
    Line("  ::fettle::HostList {};  // One entry per member; host memory.",
         CppIdentifier(dim->name));
  Line(
      "}};\n\n// The tensors of one call, in the order of the operator's signature. A pointer is a "
      "view.\nstruct Args {{");
  for (const ArgDecl& arg : model_.args) {
    const std::string name = CppIdentifier(arg.name);
    if (arg.role == Role::kNone) continue;
    if (arg.role == Role::kScalar) {
      if (arg.value_kind != ArgDecl::Value::kPerCase) continue;
      Line("  {} {} = 0;", IsFloat(arg.type.dtype) ? "double" : "std::int64_t", name);
      continue;
    }
    if (arg.each != nullptr) {
      Line("  ::fettle::Pointers {};  // {}", name,
           arg.in_struct ? "Addresses in host memory." : "A table of addresses in device memory.");
      continue;
    }
    std::string shape;
    for (const Expr& extent : arg.shape) shape += (shape.empty() ? "" : ", ") + extent.text();
    const char* role = arg.role == Role::kIn      ? "in"
                       : arg.role == Role::kOut   ? "out"
                       : arg.role == Role::kInOut ? "inout"
                                                  : "index";
    Line("  ::fettle::View<{}> {};  // {} {}[{}]{}{}", TypeOf(arg), name, role,
         arg.type.family.empty() ? std::string(DTypeName(arg.type.dtype)) : arg.type.family, shape,
         arg.strides.has_value() ? ", strided" : "",
         arg.optional_dim.empty() ? "" : fmt::format("; null where {} is 0", arg.optional_dim));
  }
  Line("}};\n");
}

}  // namespace fettle
