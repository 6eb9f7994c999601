// SPDX-License-Identifier: Apache-2.0
#include "exporter/operator_header.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/plan_bind.h"
#include "core/status_macros.h"
#include "core/target.h"
#include "exporter/plan_cpp.h"
#include "exporter/runtime_files.h"  // Generated from exporter/runtime.

namespace fettle {
namespace {

using Names = std::map<std::string, std::string>;

bool IsListed(const std::vector<const DimDecl*>& dims, std::string_view name) {
  return std::any_of(dims.begin(), dims.end(),
                     [&](const DimDecl* dim) { return dim->name == name; });
}

// Dims that cannot be computed from plain dims: lists, and what is derived from them.
std::set<std::string> FromLists(const TaskModel& model) {
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

void AddNames(const nlohmann::json& value, std::set<std::string>& names) {
  if (value.is_string()) {
    const absl::StatusOr<Expr> expr = Expr::Parse(value.get<std::string>());
    if (expr.ok()) names.merge(expr->Names());
  } else if (value.is_structured()) {
    for (const auto& member : value) AddNames(member, names);
  }
}

// What fills and copies of whole members of an array need: the members' shapes.
void AddMemberShapes(const nlohmann::json& steps, const TaskModel& model,
                     std::set<std::string>& names) {
  for (const auto& step : steps) {
    if (step.contains("steps")) AddMemberShapes(step["steps"], model, names);
    for (const char* key : {"fill", "copy"}) {
      if (!step.contains(key) || step.contains("count")) continue;
      const ArgDecl* arg = model.FindArg(step[key].get<std::string>());
      if (arg == nullptr || arg->each == nullptr) continue;
      for (const Expr& extent : arg->each->shape) names.merge(extent.Names());
    }
  }
}

std::string Quoted(std::string_view text) {
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

class Writer {
 public:
  explicit Writer(const BundleModel& bundle)
      : bundle_(bundle), task_(*bundle.task), model_(bundle.task->model()), view_(ViewOf(bundle)) {}

  absl::StatusOr<std::string> Write();

 private:
  Names NamesFor(const BundleKernel* kernel, const std::string& target) const;
  std::string TypeOf(const ArgDecl& arg) const;
  std::string WantedDType(const TypeRef& type) const {
    return type.family.empty() ? CppDType(type.dtype) : fmt::format("c.types.{}", type.family);
  }
  void Structs();
  absl::Status CallStruct();
  absl::Status Check();
  absl::Status Tensors();
  absl::Status Kernels();
  absl::Status Guard(std::size_t k);
  void Tables();
  void Select();
  void Keys();
  void Finish();

  // Adds a formatted line.
  template <class... A>
  void Line(fmt::format_string<A...> format, A&&... args) {
    out_ += fmt::format(format, std::forward<A>(args)...);
    out_ += '\n';
  }
  std::string Selector(const BuildSelector& selector) const;
  std::vector<const DimDecl*> Plain() const {
    std::vector<const DimDecl*> dims = view_.inputs;
    dims.insert(dims.end(), view_.computed.begin(), view_.computed.end());
    return dims;
  }

  const BundleModel& bundle_;
  const Task& task_;
  const TaskModel& model_;
  const OperatorView view_;
  std::vector<PlanCpp> plans_;
  std::string out_;
};

// Dims, lists and element sizes as members of `c`; tunables and target values as constants.
Names Writer::NamesFor(const BundleKernel* kernel, const std::string& target) const {
  Names names;
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

std::string Writer::TypeOf(const ArgDecl& arg) const {
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

void Writer::Structs() {
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

absl::Status Writer::CallStruct() {
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
  const Names names = NamesFor(nullptr, "");
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
    Names inner = names;
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

// The operator's domain, as the task declares it.
absl::Status Writer::Check() {
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
         Quoted(fmt::format("{}: a dtype that the operator does not take", family.name)));
  }
  const Names names = NamesFor(nullptr, "");
  const auto available = [&](const Expr& expr) {
    for (const std::string& name : expr.Names()) {
      if (!names.contains(name)) return false;
    }
    return true;
  };
  for (const DimDecl* dim : Plain()) {
    Line("  if (!c.d_{}.ok) return {};", dim->name, Quoted(dim->name + ": overflows 64 bits"));
    if (dim->let.has_value()) {
      if (IsListed(view_.inputs, dim->name)) {
        Line("  if (c.d_{}.value < 0) return {};", dim->name, Quoted(dim->name + ": negative"));
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
    Line("  if (!({})) return {};", test, Quoted(dim->name + ": outside of the operator's domain"));
  }
  for (const Expr& condition : model_.valid) {
    if (!available(condition)) continue;
    FETTLE_ASSIGN_OR_RETURN(const std::string text, EmitExpr(condition, names, false));
    Line("  if (!holds({})) return {};", text, Quoted("not so: " + condition.text()));
  }
  for (const DimDecl* dim : view_.lists) {
    FETTLE_ASSIGN_OR_RETURN(const std::string length, EmitExpr(dim->length, names, false));
    Line("  if (static_cast<std::int64_t>(c.l_{}.values.size()) != ({}).value) return {};",
         dim->name, length, Quoted(dim->name + ": another number of entries than the dims say"));
  }
  for (const ArgDecl* arg : view_.pointers) {
    if (!available(arg->count)) continue;
    FETTLE_ASSIGN_OR_RETURN(const std::string count, EmitExpr(arg->count, names, false));
    const std::string field = CppIdentifier(arg->name);
    Line("  if (c.args.{0}.{1} != nullptr && c.args.{0}.count != ({2}).value) return {3};", field,
         arg->in_struct ? "host" : "device", count,
         Quoted(arg->name + ": another number of members than the dims say"));
  }
  Line("  return nullptr;\n}}\n");
  return absl::OkStatus();
}

absl::Status Writer::Tensors() {
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
        index++, Quoted(arg->name + ": null, though it has elements"), field, arg->name, element,
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

std::string Writer::Selector(const BuildSelector& selector) const {
  std::string test;
  for (const auto& [family, dtype] : selector.types) {
    test += fmt::format("{}c.types.{} == {}", test.empty() ? "" : " && ", family, CppDType(dtype));
  }
  for (const auto& [name, value] : selector.special) {
    test += fmt::format("{}c.d_{}.value == INT64_C({})", test.empty() ? "" : " && ", name, value);
  }
  return test.empty() ? "true" : test;
}

absl::Status Writer::Guard(std::size_t k) {
  const BundleKernel& kernel = bundle_.kernels[k];
  std::string target = "cpu";
  if (kernel.variant != nullptr) {
    target = kernel.variant->provenance->target;
  } else if (!bundle_.targets.empty()) {
    target = bundle_.targets.front();
  }
  Line("// Whether {} was tested for the call.", kernel.id);
  Line(
      "inline bool guard_{}(const Call& c) {{\n  (void)c;\n  const ::fettle_expr::Checked "
      "multiprocessors = "
      "::fettle_expr::Num(::fettle::Limits().multiprocessors);\n  (void)multiprocessors;",
      k);
  if (kernel.variant != nullptr) {
    Line("  bool tested = false;");
    for (const Envelope& envelope : kernel.envelopes) {
      std::string test = Selector(envelope.selector);
      for (const auto& [name, range] : envelope.dims) {
        test +=
            fmt::format(" &&\n      c.d_{0}.value >= INT64_C({1}) && c.d_{0}.value <= INT64_C({2})",
                        name, range.min, range.max);
        if (range.multiple_of > 1)
          test += fmt::format(" && c.d_{}.value % {} == 0", name, range.multiple_of);
      }
      for (const auto& [name, range] : envelope.scalars) {
        const std::string field = CppIdentifier(name);
        const bool real = IsFloat(model_.FindArg(name)->type.dtype);
        if (real) {
          test += fmt::format(" &&\n      c.args.{0} >= {1:.17g} && c.args.{0} <= {2:.17g}", field,
                              range.first, range.second);
        } else {
          test += fmt::format(" &&\n      c.args.{0} >= INT64_C({1}) && c.args.{0} <= INT64_C({2})",
                              field, static_cast<std::int64_t>(range.first),
                              static_cast<std::int64_t>(range.second));
        }
      }
      Line("  tested = tested || ({});", test);
    }
    Line("  if (!tested) return false;");
  }
  const Names names = NamesFor(&kernel, target);
  for (const auto* list : {&kernel.kernel.guards, &kernel.kernel.constraints}) {
    for (const Expr& condition : *list) {
      FETTLE_ASSIGN_OR_RETURN(const std::string text, EmitExpr(condition, names, false));
      Line("  if (!holds({})) return false;  // {}", text, condition.text());
    }
  }
  Line("  return true;\n}}\n");
  return absl::OkStatus();
}

absl::Status Writer::Kernels() {
  for (std::size_t k = 0; k < bundle_.kernels.size(); ++k) {
    const BundleKernel& kernel = bundle_.kernels[k];
    FETTLE_RETURN_IF_ERROR(Guard(k));
    // Target values other than the number of multiprocessors are those that the kernel was built
    // for.
    const std::string target = kernel.variant != nullptr ? kernel.variant->provenance->target
                               : bundle_.targets.empty() ? "cpu"
                                                         : bundle_.targets.front();
    FETTLE_ASSIGN_OR_RETURN(PlanCpp plan,
                            EmitPlan(model_, kernel.kernel, NamesFor(&kernel, target)));
    std::string values;
    for (const auto& [name, value] : kernel.values) values += fmt::format(" {}={}", name, value);
    Line("// Launches of {}{}{}", kernel.id, values.empty() ? "" : ":", values);
    Line(
        "inline bool plan_{}(const Call& c, ::fettle::Enqueue& q, ::fettle::Carver& w) {{\n"
        "  (void)c;\n  (void)w;\n  const ::fettle_expr::Checked multiprocessors = "
        "q.multiprocessors();\n"
        "  (void)multiprocessors;\n{}  return true;\n}}",
        k, plan.plan);
    Line(
        "inline void workspace_{}(const Call& c, ::fettle_expr::Checked multiprocessors, "
        "::fettle::Carver& w) {{\n"
        "  (void)c;\n  (void)multiprocessors;\n  (void)w;\n{}}}\n",
        k, plan.workspace);
    plans_.push_back(std::move(plan));
  }
  return absl::OkStatus();
}

void Writer::Tables() {
  Line("inline constexpr ::fettle::TargetInfo kTargets[] = {{");
  for (const std::string& name : bundle_.targets) {
    const absl::StatusOr<Target> target = FindTarget(name);
    const Vendor vendor = target.ok() ? target->vendor : Vendor::kCpu;
    Line("    {{{}, ::fettle::Backend::{}}},", Quoted(name),
         vendor == Vendor::kNvidia ? "kCuda"
         : vendor == Vendor::kAmd  ? "kHip"
                                   : "kCpu");
  }
  if (bundle_.targets.empty()) Line("    {{\"none\", ::fettle::Backend::kCpu}},");
  Line("}};\ninline constexpr ::fettle::KernelInfo kKernels[] = {{");
  for (const BundleKernel& kernel : bundle_.kernels) Line("    {{{}}},", Quoted(kernel.id));
  Line("}};");
  std::string rows;
  int index = 0;
  for (const BundleBuild& build : bundle_.builds) {
    const int kernel = bundle_.KernelIndex(build.kernel);
    const PlanCpp& plan = plans_[static_cast<std::size_t>(kernel)];
    const auto target = std::find(bundle_.targets.begin(), bundle_.targets.end(), build.target);
    for (const BuildSelector& selector : build.selectors) {
      // Symbols in the order of the plan's kernels, whose spelling depends on the types.
      BoundCase names;
      for (const auto& [family, dtype] : selector.types) names.types.emplace_back(family, dtype);
      for (const auto& [name, value] : selector.special)
        names.dims.push_back({name, false, {value}});
      std::string symbols;
      const BundleKernel& spec = bundle_.kernels[static_cast<std::size_t>(kernel)];
      for (const std::string& entry : plan.entries) {
        const std::string spelled = SpellEntry(model_, spec.kernel, spec.values, names, entry);
        const auto at = std::find(build.entries.begin(), build.entries.end(), spelled);
        symbols +=
            Quoted(at == build.entries.end()
                       ? ""
                       : build.symbols[static_cast<std::size_t>(at - build.entries.begin())]) +
            ", ";
      }
      Line("inline constexpr const char* kSymbols{}[] = {{{}nullptr}};", index, symbols);
      std::string special = "nullptr", types = "";
      if (!model_.specialize.empty()) {
        std::string values;
        for (const std::string& name : model_.specialize)
          values += fmt::format("INT64_C({}), ", selector.special.at(name));
        Line("inline constexpr std::int64_t kSpecial{}[] = {{{}}};", index, values);
        special = fmt::format("kSpecial{}", index);
      }
      for (const TypeFamily& family : model_.types) {
        types += fmt::format("\\x{:02x}", static_cast<int>(selector.types.at(family.name)));
      }
      const char* evidence = build.status == "run"        ? "kRun"
                             : build.status == "emulated" ? "kEmulated"
                                                          : "kCompiledOnly";
      // The production kernel serves as the fallback wherever a variant ran.
      if (build.kernel == kBaselineId && build.status == "compiled_only") {
        const bool ran = std::any_of(bundle_.builds.begin(), bundle_.builds.end(),
                                     [&](const BundleBuild& other) {
                                       return other.target == build.target && other.status == "run";
                                     });
        if (ran) evidence = "kRun";
      }
      rows += fmt::format(
          "    {{{}, {}, ::fettle::Evidence::{}, \"{}\", {}, {}, {}u,\n     \"{}\", {}, "
          "kSymbols{}, {}, {}}},\n",
          kernel, std::distance(bundle_.targets.begin(), target), evidence, types, special,
          Quoted(build.path), build.bytes, build.sha256, plan.entries.size(), index, build.waits,
          Quoted(build.machine));
      ++index;
    }
  }
  if (index == 0)
    rows =
        "    {0, -1, ::fettle::Evidence::kCompiledOnly, \"\", nullptr, \"\", 0u, \"\", 0, nullptr, "
        "false, \"\"},\n";
  Line("inline constexpr ::fettle::BuildInfo kBuilds[] = {{\n{}}};\n", rows);
}

void Writer::Select() {
  const std::vector<const DimDecl*> plain = Plain();
  const std::set<std::string> derived = FromLists(model_);
  int index = 0;
  std::string body;
  for (std::size_t t = 0; t < bundle_.selection.size(); ++t) {
    std::string rows;
    for (const SelectionRow& row : bundle_.selection[t].rows) {
      std::string order;
      for (const int kernel : row.order) order += fmt::format("{}, ", kernel);
      Line("inline constexpr signed char kOrder{}[] = {{{}-1}};", index, order);
      BuildSelector types{.types = row.types, .special = {}};
      std::string test = Selector(types);
      for (const auto& [name, range] : row.dims) {
        if (range.first == range.second) {
          test += fmt::format(" && c.d_{}.value == INT64_C({})", name, range.first);
          continue;
        }
        if (range.first > INT64_MIN)
          test += fmt::format(" && c.d_{}.value >= INT64_C({})", name, range.first);
        if (range.second < INT64_MAX)
          test += fmt::format(" && c.d_{}.value <= INT64_C({})", name, range.second);
      }
      const char* kind = row.kind == SelectionRow::Kind::kExact    ? "kExact"
                         : row.kind == SelectionRow::Kind::kBucket ? "kBucket"
                                                                   : "kGeneric";
      rows += fmt::format("      if ({}) out.add(kOrder{}, ::fettle::Choice::{});\n", test, index++,
                          kind);
    }
    body += fmt::format("    case {}:  // {}: regret {:.2f} %, at most {:.2f} %\n{}      break;\n",
                        t, bundle_.selection[t].target, bundle_.selection[t].mean_regret * 100,
                        bundle_.selection[t].worst_regret * 100, rows);
  }
  Line(
      "\n// Variants for the call, best first: exact size, then bucket, then any.\n"
      "inline void select(int target, const Call& c, ::fettle::Candidates& out) {{\n  (void)c;\n  "
      "(void)out;\n"
      "  switch (target) {{\n{}    default:\n      break;\n  }}\n}}\n",
      body);
}

void Writer::Keys() {
  std::string key, text;
  int count = 0;
  text += "  std::string text = \"\\\"types\\\":{\";\n";
  bool first = true;
  for (const TypeFamily& family : model_.types) {
    key += fmt::format("  key[{}] = static_cast<std::int64_t>(c.types.{});\n", count, family.name);
    text += fmt::format(
        "  text += std::string(\"{}\\\"{}\\\":\\\"\") + "
        "::fettle::dtype_name(static_cast<::fettle::DType>(key[{}])) + \"\\\"\";\n",
        first ? "" : ",", family.name, count++);
    first = false;
  }
  text += "  text += \"},\\\"dims\\\":{\";\n";
  first = true;
  for (const DimDecl* dim : view_.inputs) {
    key += fmt::format("  key[{}] = c.shape.{};\n", count, CppIdentifier(dim->name));
    text += fmt::format("  text += \"{}\\\"{}\\\":\" + std::to_string(key[{}]);\n",
                        first ? "" : ",", dim->name, count++);
    first = false;
  }
  for (const ArgDecl* arg : view_.scalars) {
    key +=
        fmt::format("  std::memcpy(&key[{}], &c.args.{}, 8);\n", count++, CppIdentifier(arg->name));
  }
  if (count == 0) key += fmt::format("  key[{}] = 0;\n", count++);
  Line("inline constexpr int kKeySize = {};", count);
  Line(
      "// False: decisions depend on lists, which are no part of a key.\n"
      "inline bool make_key(const Call& c, std::int64_t* key) {{\n  (void)c;\n{}  return {};\n}}",
      key, view_.lists.empty() ? "true" : "false");
  Line(
      "inline std::string describe(const std::int64_t* key) {{\n  (void)key;\n{}  return text + "
      "\"}}\";\n}}\n",
      text);
}

void Writer::Finish() {
  const std::string space = OperatorNamespace(bundle_);
  const bool cpu =
      std::find(bundle_.targets.begin(), bundle_.targets.end(), "cpu") != bundle_.targets.end();
  std::string guards, plans, spaces;
  for (std::size_t k = 0; k < bundle_.kernels.size(); ++k) {
    guards += fmt::format("      case {0}: return detail::guard_{0}(c);\n", k);
    plans += fmt::format("      case {0}: return detail::plan_{0}(c, q, w);\n", k);
    spaces +=
        fmt::format("      case {0}: return detail::workspace_{0}(c, multiprocessors, w);\n", k);
  }
  std::string matches;
  int family = 0;
  for (const TypeFamily& type : model_.types) {
    matches +=
        fmt::format(" && build.types[{}] == static_cast<char>(c.types.{})", family++, type.name);
  }
  int special = 0;
  for (const std::string& name : model_.specialize) {
    matches += fmt::format(" && c.d_{}.value == build.special[{}]", name, special++);
  }
  Line("}}  // namespace detail\n");
  Line(
      "// What the dispatcher of <fettle/runtime.hpp> needs to know of this operator.\nstruct Spec "
      "{{\n"
      "  using Types = {0}::Types;\n  using Shape = {0}::Shape;\n  using Args = {0}::Args;\n  "
      "using Call = detail::Call;\n"
      "  static constexpr const char* kName = {1};\n  static constexpr const char* kVersion = "
      "{2};\n"
      "  static constexpr const char* kDigest = {3};\n"
      "  static constexpr int kKernelCount = {4}, kBuildCount = static_cast<int>(sizeof "
      "detail::kBuilds / sizeof *detail::kBuilds);\n"
      "  static constexpr int kTargetCount = static_cast<int>(sizeof detail::kTargets / sizeof "
      "*detail::kTargets);\n"
      "  static constexpr int kKeySize = detail::kKeySize;\n"
      "  static const ::fettle::KernelInfo* kernels() {{ return detail::kKernels; }}\n"
      "  static const ::fettle::BuildInfo* builds() {{ return detail::kBuilds; }}\n"
      "  static const ::fettle::TargetInfo* targets() {{ return detail::kTargets; }}\n"
      "  static const char* default_root() {{ return FETTLE_ROOT_{5}; }}\n"
      "  static const ::fettle::EmbeddedObject* embedded() {{ return FETTLE_OBJECTS_{5}; }}",
      space, Quoted(task_.name()), Quoted(bundle_.version), Quoted(bundle_.digest),
      bundle_.kernels.size(), space);
  Line(
      "  static const ::fettle::CpuHost* cpu_host() {{ return {}; }}\n  static std::int64_t "
      "cpu_cores() {{ return {}; }}",
      cpu ? "::fettle::cpu_host()" : "nullptr", cpu ? "::fettle::cpu_cores()" : "1");
  Line(
      "  static const char* check(const Call& c) {{ return detail::check(c); }}\n"
      "  static int tensors(const Call& c, ::fettle::TensorFacts* out) {{ return "
      "detail::tensors(c, out); }}\n"
      "  static bool key(const Call& c, std::int64_t* key) {{ return detail::make_key(c, key); }}\n"
      "  static std::string describe(const std::int64_t* key) {{ return detail::describe(key); }}\n"
      "  static void select(int target, const Call& c, ::fettle::Candidates& out) {{ "
      "detail::select(target, c, out); }}\n"
      "  static bool matches(const ::fettle::BuildInfo& build, const Call& c) {{\n    (void)c;\n   "
      " return build.target >= 0{};\n  }}\n"
      "  static bool guard(int kernel, const Call& c) {{\n    switch (kernel) {{\n{}      default: "
      "return false;\n    }}\n  }}\n"
      "  static bool plan(int kernel, const Call& c, ::fettle::Enqueue& q, ::fettle::Carver& w) "
      "{{\n    switch (kernel) {{\n{}      default: return false;\n    }}\n  }}\n"
      "  static void workspace(int kernel, const Call& c, const ::fettle::Limits& limits, "
      "::fettle::Carver& w) {{\n"
      "    const ::fettle_expr::Checked multiprocessors = "
      "::fettle_expr::Num(limits.multiprocessors);\n    switch (kernel) {{\n{}      default: "
      "return;\n    }}\n  }}\n}};\n",
      matches, guards, plans, spaces);
  Line(
      "using Operator = ::fettle::Operator<Spec>;\n\n}}  // namespace {}\n}}  // namespace "
      "fettle_ops\n\n#endif",
      space);
}

absl::StatusOr<std::string> Writer::Write() {
  const std::string space = OperatorNamespace(bundle_);
  const bool cpu =
      std::find(bundle_.targets.begin(), bundle_.targets.end(), "cpu") != bundle_.targets.end();
  Line(
      "// SPDX-License-Identifier: {}\n//\n// {} {}: {}\n// Generated by fettle {}; do not edit. "
      "Bundle digest {}.\n//",
      task_.license(), task_.name(), bundle_.version, task_.summary(), FETTLE_VERSION,
      bundle_.digest);
  Line(
      "//   fettle_ops::{0}::Operator op;\n//   op.prepare(backend);                       // Once "
      "per device, before any graph capture.\n"
      "//   op(stream, types, shape, args, workspace);  // Allocates nothing, waits for nothing.",
      CppIdentifier(task_.name()));
  std::set<std::string> unchecked = FromLists(model_);
  for (const DimDecl* dim : view_.lists) unchecked.erase(dim->name);
  for (const DimDecl* dim : Plain()) unchecked.erase(dim->name);
  if (!unchecked.empty()) {
    Line("// Not checked, because they lie in device memory: {}.", fmt::join(unchecked, ", "));
  }
  Line("#ifndef FETTLE_OPS_{0}_HPP\n#define FETTLE_OPS_{0}_HPP\n", space);
  Line(
      "#include <cstdint>\n#include <cstring>\n#include <string>\n\n#include "
      "<fettle/runtime.hpp>{}\n",
      cpu ? "\n#include <fettle/cpu_host.hpp>" : "");
  Line(
      "#ifndef FETTLE_ROOT_{0}  // Where the bundle is; the CMake package sets it.\n#define "
      "FETTLE_ROOT_{0} \".\"\n#endif\n"
      "#ifdef FETTLE_EMBEDDED_{0}  // The objects are linked in.\n"
      "extern \"C\" const ::fettle::EmbeddedObject fettle_objects_{0}[];\n#define "
      "FETTLE_OBJECTS_{0} fettle_objects_{0}\n"
      "#else\n#define FETTLE_OBJECTS_{0} nullptr\n#endif\n",
      space);
  Line("namespace fettle_ops {{\nnamespace {} {{\n", space);
  Structs();
  Line("namespace detail {{\n");
  FETTLE_RETURN_IF_ERROR(CallStruct());
  Line(
      "inline bool holds(::fettle_expr::Checked value) {{ return value.ok && value.value != 0; }}\n"
      "inline bool within(::fettle_expr::Checked v, ::fettle_expr::Checked low, "
      "::fettle_expr::Checked high,\n"
      "                   ::fettle_expr::Checked step) {{\n"
      "  return v.ok && low.ok && high.ok && step.ok && v.value >= low.value && v.value <= "
      "high.value &&\n"
      "         (step.value <= 1 || v.value % step.value == 0);\n}}\n"
      "inline const void* member(const ::fettle::Pointers& pointers, ::fettle_expr::Checked index, "
      "bool& ok) {{\n"
      "  ok = ok && index.ok && pointers.host != nullptr && index.value >= 0 && index.value < "
      "pointers.count;\n"
      "  return ok ? pointers.host[index.value] : nullptr;\n}}\n");
  FETTLE_RETURN_IF_ERROR(Check());
  FETTLE_RETURN_IF_ERROR(Tensors());
  FETTLE_RETURN_IF_ERROR(Kernels());
  Tables();
  Select();
  Keys();
  Finish();
  return std::move(out_);
}

std::string_view RuntimeText(std::string_view name) {
  for (const EmbeddedFile& file : ExporterRuntimeFiles()) {
    if (file.name == name) return file.bytes;
  }
  FETTLE_CHECK(false && "no such runtime file");
  return {};
}

}  // namespace

OperatorView ViewOf(const BundleModel& bundle) {
  const TaskModel& model = bundle.task->model();
  OperatorView view;
  const std::set<std::string> from_lists = FromLists(model);
  std::set<std::string> needed;  // Names in launches, workspaces, guards, constraints.
  for (const BundleKernel& kernel : bundle.kernels) {
    AddNames(kernel.kernel.launches, needed);
    AddNames(kernel.kernel.workspace, needed);
    AddMemberShapes(kernel.kernel.launches, model, needed);
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

absl::StatusOr<std::string> OperatorHeader(const BundleModel& model) {
  return Writer(model).Write();
}

std::string AliasHeader(const BundleModel& model) {
  const std::string name = CppIdentifier(model.task->name());
  return fmt::format(
      "// SPDX-License-Identifier: {0}\n// Generated by fettle {1}; do not edit. The operator "
      "under its plain name: for one\n"
      "// version in a program. Several versions: include their own headers.\n#ifndef "
      "FETTLE_OPS_{2}_HPP\n"
      "#define FETTLE_OPS_{2}_HPP\n#include <fettle_ops/{2}/{3}.hpp>\nnamespace fettle_ops "
      "{{\nnamespace {2} = {4};\n}}\n#endif\n",
      model.task->license(), FETTLE_VERSION, name, model.short_digest(), OperatorNamespace(model));
}

std::map<std::string, std::string> RuntimeHeaderFiles() {
  std::string prelude(ExprCppPrelude());
  prelude = fmt::format(
      "// SPDX-License-Identifier: Apache-2.0\n#ifndef FETTLE_EXPR_1_HPP\n#define "
      "FETTLE_EXPR_1_HPP\n{}\n"
      "namespace fettle_expr {{\n"
      "// As Div, but an inexact quotient fails: shapes and grids.\n"
      "inline Checked DivExact(Checked a, Checked b) {{\n"
      "  if (!a.ok || !b.ok || b.value == 0 || (b.value != -1 && a.value % b.value != 0)) return "
      "Fail();\n"
      "  return Div(a, b);\n}}\n}}  // namespace fettle_expr\n#endif\n",
      prelude);
  // Two bundles carry the same file at two places, which #pragma once takes for two files.
  std::string abi(RuntimeText("cpu_abi.h"));
  const std::size_t once = abi.find("#pragma once");
  FETTLE_CHECK(once != std::string::npos);
  abi.replace(once, 12, "#ifndef FETTLE_CPU_ABI_1_H\n#define FETTLE_CPU_ABI_1_H");
  abi += "#endif\n";
  return {{"include/fettle/expr.hpp", std::move(prelude)},
          {"include/fettle/runtime.hpp", std::string(RuntimeText("fettle_runtime.hpp"))},
          {"include/fettle/cpu_host.hpp", std::string(RuntimeText("fettle_cpu_host.hpp"))},
          {"include/fettle/cpu_abi.h", std::move(abi)}};
}

}  // namespace fettle
