// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exporter/torch_signature.h"

namespace fettle {
namespace {

class CppWriter {
 public:
  explicit CppWriter(const TorchSignature& signature)
      : op_(signature), outputs_(signature.Outputs()) {}

  std::string Write() const;

 private:
  std::string Schema(bool outputs) const;
  std::string Parameters(bool outputs) const;
  std::string Sizes() const;
  std::string Run() const;
  std::string Functional() const;
  std::string Boxed(const std::string& name, bool outputs) const;
  std::string StableRegistration() const;
  std::string VersionRegistration() const;
  std::string ResultType(const char* tensor) const;
  std::string Names(bool outputs) const {
    return fmt::format("{}", fmt::join(op_.Names(outputs), ", "));
  }
  bool functional() const { return !outputs_.empty(); }

  const TorchSignature& op_;
  const std::vector<const ArgDecl*> outputs_;
};

// "Tensor x, Tensor(a!) state, SymInt n, float eps, Tensor(b!) y"
std::string CppWriter::Schema(bool outputs) const {
  std::vector<std::string> parts;
  char mark = 'a';
  for (const ArgDecl* arg : op_.view.tensors) {
    if (arg->role == Role::kOut) continue;
    const char* optional = arg->optional_dim.empty() ? "" : "?";
    parts.push_back(
        arg->role == Role::kInOut
            ? fmt::format("Tensor({}!){} {}", mark++, optional, CppIdentifier(arg->name))
            : fmt::format("Tensor{} {}", optional, CppIdentifier(arg->name)));
  }
  for (const DimDecl* dim : op_.stated_dims) parts.push_back("SymInt " + CppIdentifier(dim->name));
  for (const ArgDecl* arg : op_.view.scalars) {
    parts.push_back((IsFloat(arg->type.dtype) ? "float " : "int ") + CppIdentifier(arg->name));
  }
  if (outputs) {
    for (const ArgDecl* arg : outputs_)
      parts.push_back(fmt::format("Tensor({}!) {}", mark++, CppIdentifier(arg->name)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string CppWriter::Parameters(bool outputs) const {
  std::vector<std::string> parts;
  for (const ArgDecl* arg : op_.view.tensors) {
    if (arg->role == Role::kOut) continue;
    parts.push_back(
        (arg->optional_dim.empty() ? "const tc::Tensor& " : "const std::optional<tc::Tensor>& ") +
        CppIdentifier(arg->name));
  }
  for (const DimDecl* dim : op_.stated_dims)
    parts.push_back("std::int64_t " + CppIdentifier(dim->name));
  for (const ArgDecl* arg : op_.view.scalars) {
    parts.push_back((IsFloat(arg->type.dtype) ? "double " : "std::int64_t ") +
                    CppIdentifier(arg->name));
  }
  if (outputs) {
    for (const ArgDecl* arg : outputs_)
      parts.push_back("const tc::Tensor& " + CppIdentifier(arg->name));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Dtypes and dims, as the arguments show them.
std::string CppWriter::Sizes() const {
  std::string text;
  for (const TypeFamily& family : op_.task.types) {
    text += fmt::format("  types_.{} = tc::dtype_of({}, \"{}\");\n", family.name,
                        op_.TensorOfFamily(family.name), op_.name);
  }
  for (const DimDecl* dim : op_.view.inputs) {
    const auto origin = op_.OriginOf(dim->name);
    const std::string field = CppIdentifier(dim->name);
    text += origin ? fmt::format("  shape_.{} = tc::size({}, {}, \"{}: {}\");\n", field,
                                 origin->tensor, origin->axis, op_.name, origin->tensor)
                   : fmt::format("  shape_.{0} = {0};\n", field);
  }
  return text;
}

// The form that writes into given outputs.
std::string CppWriter::Run() const {
  std::string checks, views;
  for (const ArgDecl* arg : op_.view.tensors) {
    const std::string field = CppIdentifier(arg->name);
    const bool optional = !arg->optional_dim.empty();
    views += optional
                 ? fmt::format("  if ({0}.has_value()) tc::assign(args_.{0}, *{0}, \"{1}\");\n",
                               field, op_.name)
                 : fmt::format("  tc::assign(args_.{0}, {0}, \"{1}\");\n", field, op_.name);
    if (field == op_.first) continue;
    checks +=
        optional ? fmt::format("  if ({0}.has_value()) tc::same_device({1}, *{0}, \"{2}: {0}\");\n",
                               field, op_.first, op_.name)
                 : fmt::format("  tc::same_device({1}, {0}, \"{2}: {0}\");\n", field, op_.first,
                               op_.name);
  }
  std::string scalars;
  for (const ArgDecl* arg : op_.view.scalars)
    scalars += fmt::format("  args_.{0} = {0};\n", CppIdentifier(arg->name));
  const bool workspace = std::any_of(
      op_.model.kernels.begin(), op_.model.kernels.end(), [](const BundleKernel& kernel) {
        return kernel.kernel.workspace.is_array() && !kernel.kernel.workspace.empty();
      });
  return fmt::format(
      "void {0}({1}) {{\n  const tc::Guard on_({2});\n{3}  ops::Types types_;\n  ops::Shape "
      "shape_;\n  ops::Args args_;\n{4}{5}{6}  tc::run<ops::Operator>(\"{7}\", {2}, types_, "
      "shape_, args_, /*may_need_workspace=*/{8});\n}}\n\n",
      op_.out_name, Parameters(true), op_.first, checks, Sizes(), views, scalars, op_.name,
      workspace);
}

std::string CppWriter::ResultType(const char* tensor) const {
  if (outputs_.size() == 1) return tensor;
  const std::vector<std::string> parts(outputs_.size(), tensor);
  return fmt::format("std::tuple<{}>", fmt::join(parts, ", "));
}

// The form that makes its outputs.
std::string CppWriter::Functional() const {
  if (!functional()) return "";
  std::string made;
  std::vector<std::string> returned;
  for (const ArgDecl* arg : outputs_) {
    const std::string field = CppIdentifier(arg->name);
    std::string sizes;
    for (std::size_t d = 0; d < arg->shape.size(); ++d)
      sizes += fmt::format("{}call_.s_{}[{}].value", d == 0 ? "" : ", ", arg->name, d);
    made += fmt::format(
        "  tc::Tensor {} = tc::empty({}, {{{}}}, {});\n", field, op_.first, sizes,
        arg->type.family.empty() ? CppDType(arg->type.dtype) : "types_." + arg->type.family);
    returned.push_back("std::move(" + field + ")");
  }
  return fmt::format(
      "{0} {1}({2}) {{\n  ops::Types types_;\n  ops::Shape shape_;\n{3}  const ops::Args "
      "none_{{}};\n"
      "  const ops::detail::Call call_(types_, shape_, none_);\n  if (const char* problem_ = "
      "ops::detail::check(call_)) tc::fail(std::string(\"{1}: \") + problem_);\n{4}  {5}({6});\n"
      "  return {7};\n}}\n\n",
      ResultType("tc::Tensor"), op_.name, Parameters(false), Sizes(), made, op_.out_name,
      Names(true),
      outputs_.size() == 1 ? CppIdentifier(outputs_.front()->name)
                           : fmt::format("{{{}}}", fmt::join(returned, ", ")));
}

// A form as PyTorch's stable interface calls it.
std::string CppWriter::Boxed(const std::string& name, bool outputs) const {
  std::string taken;
  const auto take = [&](const std::string& field, const char* type, const char* how) {
    taken += fmt::format("  const {} {} = in_.{}();\n", type, field, how);
  };
  for (const ArgDecl* arg : op_.view.tensors) {
    if (arg->role == Role::kOut) continue;
    const std::string field = CppIdentifier(arg->name);
    arg->optional_dim.empty() ? take(field, "tc::Tensor", "tensor")
                              : take(field, "std::optional<tc::Tensor>", "optional_tensor");
  }
  for (const DimDecl* dim : op_.stated_dims)
    take(CppIdentifier(dim->name), "std::int64_t", "integer");
  for (const ArgDecl* arg : op_.view.scalars) {
    IsFloat(arg->type.dtype) ? take(CppIdentifier(arg->name), "double", "real")
                             : take(CppIdentifier(arg->name), "std::int64_t", "integer");
  }
  if (outputs) {
    for (const ArgDecl* arg : outputs_) take(CppIdentifier(arg->name), "tc::Tensor", "tensor");
  }
  std::string call = fmt::format("{}({})", name, Names(outputs)), results;
  if (!outputs && functional()) {
    call = "auto made_ = " + call;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      results += outputs_.size() == 1
                     ? std::string("  stack_[0] = tc::result(made_);\n")
                     : fmt::format("  stack_[{0}] = tc::result(std::get<{0}>(made_));\n", i);
    }
  }
  return fmt::format(
      "void boxed_{}(std::uint64_t* stack_, std::uint64_t, std::uint64_t) {{\n  tc::Stack "
      "in_(stack_);\n{}  {};\n{}}}\n",
      name, taken, call, results);
}

std::string CppWriter::StableRegistration() const {
  std::string boxed, schemas, functions;
  const auto add = [&](const std::string& name, bool outputs, const std::string& result) {
    boxed += Boxed(name, outputs);
    schemas += fmt::format("{}\"{}({}) -> {}\"", schemas.empty() ? "" : ",\n     ", name,
                           Schema(outputs), result);
    functions += fmt::format("{}{{\"{}\", &boxed_{}}}", functions.empty() ? "" : ", ", name, name);
  };
  if (functional()) {
    const std::vector<std::string> parts(outputs_.size(), "Tensor");
    add(op_.name, false,
        parts.size() == 1 ? "Tensor" : fmt::format("({})", fmt::join(parts, ", ")));
  }
  add(op_.out_name, true, "()");
  return fmt::format(
      "{}\nconst tc::Registration registration(\n    \"fettle_{}\",\n    {{{}}},\n    {{{}}});\n",
      boxed, op_.space, schemas, functions);
}

std::string CppWriter::VersionRegistration() const {
  std::string defined, implemented;
  if (functional()) {
    const std::vector<std::string> parts(outputs_.size(), "Tensor");
    defined =
        fmt::format("  m.def(\"{}({}) -> {}\");\n", op_.name, Schema(false),
                    parts.size() == 1 ? "Tensor" : fmt::format("({})", fmt::join(parts, ", ")));
  }
  defined += fmt::format("  m.def(\"{}({}) -> ()\");\n", op_.out_name, Schema(true));
  for (const char* key : {"CUDA", "CPU"}) {
    implemented += fmt::format("TORCH_LIBRARY_IMPL(fettle_{}, {}, m) {{\n", op_.space, key);
    if (functional()) implemented += fmt::format("  m.impl(\"{0}\", &{0});\n", op_.name);
    implemented += fmt::format("  m.impl(\"{0}\", &{0});\n}}\n", op_.out_name);
  }
  return fmt::format("TORCH_LIBRARY(fettle_{}, m) {{\n{}}}\n{}", op_.space, defined, implemented);
}

std::string CppWriter::Write() const {
  return fmt::format(
      "// SPDX-License-Identifier: {license}\n"
      "// Generated by fettle {tool}; do not edit. {name} as a PyTorch operator, forward only: "
      "there is no autograd formula.\n"
      "// One source serves CUDA and ROCm builds of PyTorch; the CUDA dispatch key means either.\n"
      "#include <cstdint>\n#include <optional>\n#include <string>\n#include <tuple>\n#include "
      "<utility>\n\n#include <fettle_ops/{name}/{digest}.hpp>\n\n#include \"fettle_torch.hpp\"\n\n"
      "namespace fettle_{space} {{\nnamespace {{\nnamespace ops = ::fettle_ops::{space};\n"
      "namespace tc = ::fettle::torch_call;\n\n{run}{functional}"
      "#ifdef FETTLE_TORCH_STABLE\n{stable}#else\n{version}#endif\n\n"
      "}}  // namespace\n}}  // namespace fettle_{space}\n\n"
      "FETTLE_TORCH_CONTROLS(::fettle_ops::{space}::Operator)\n",
      fmt::arg("license", op_.model.task->license()), fmt::arg("tool", FETTLE_VERSION),
      fmt::arg("name", op_.name), fmt::arg("digest", op_.model.short_digest()),
      fmt::arg("space", op_.space), fmt::arg("run", Run()), fmt::arg("functional", Functional()),
      fmt::arg("stable", StableRegistration()), fmt::arg("version", VersionRegistration()));
}

}  // namespace

std::string TorchCpp(const TorchSignature& signature) { return CppWriter(signature).Write(); }

}  // namespace fettle
