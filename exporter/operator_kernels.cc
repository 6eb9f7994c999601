// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/status_macros.h"
#include "exporter/operator_writer.h"

namespace fettle {

std::string OperatorWriter::Selector(const BuildSelector& selector) const {
  std::string test;
  for (const auto& [family, dtype] : selector.types) {
    test += fmt::format("{}c.types.{} == {}", test.empty() ? "" : " && ", family, CppDType(dtype));
  }
  for (const auto& [name, value] : selector.special) {
    test += fmt::format("{}c.d_{}.value == INT64_C({})", test.empty() ? "" : " && ", name, value);
  }
  return test.empty() ? "true" : test;
}

// Target values other than the number of multiprocessors are those that the kernel was built for.
std::string OperatorWriter::TargetOf(const BundleKernel& kernel) const {
  if (kernel.variant != nullptr) return kernel.variant->provenance->target;
  return bundle_.targets.empty() ? "cpu" : bundle_.targets.front();
}

// For each array of tensors, whether its members hold no more than was tested: in all, and each.
absl::Status OperatorWriter::ArrayVolumes() {
  auto names = NamesFor(nullptr, "");
  names["g"] = "::fettle_expr::Num(g)";
  for (const ArgDecl* arg : view_.pointers) {
    FETTLE_ASSIGN_OR_RETURN(const std::string count, EmitExpr(arg->count, names, true));
    std::string sizes;
    for (const Expr& extent : arg->each->shape) {
      FETTLE_ASSIGN_OR_RETURN(const std::string size, EmitExpr(extent, names, true));
      sizes += (sizes.empty() ? "" : ", ") + size;
    }
    const bool alike = std::none_of(arg->each->shape.begin(), arg->each->shape.end(),
                                    [](const Expr& e) { return e.Names().contains("g"); });
    Line(
        "inline bool volumes_{}(const Call& c, std::int64_t most, std::int64_t most_each) {{\n"
        "  (void)c;\n  const ::fettle_expr::Checked count = {};",
        arg->name, count);
    const std::string one = fmt::format("const ::fettle_expr::Checked one = volume({});", sizes);
    if (alike) {
      Line(
          "  {}\n  if (count.ok && count.value <= 0) return true;\n"
          "  return at_most(one, most_each) && at_most(::fettle_expr::Mul(count, one), most);\n}}",
          one);
      continue;
    }
    Line(
        "  ::fettle_expr::Checked total = ::fettle_expr::Num(0);\n"
        "  for (std::int64_t g = 0; count.ok && g < count.value; ++g) {{\n    {}\n"
        "    total = ::fettle_expr::Add(total, one);\n"
        "    if (!at_most(one, most_each) || !at_most(total, most)) return false;\n  }}\n"
        "  return count.ok;\n}}",
        one);
  }
  return absl::OkStatus();
}

std::string OperatorWriter::VolumeTest(const Envelope& envelope) const {
  std::string test;
  for (const auto& [name, most] : envelope.elements) {
    const ArgDecl& arg = *model_.FindArg(name);
    std::string fits;
    if (arg.each != nullptr) {
      fits = fmt::format("volumes_{}(c, INT64_C({}), INT64_C({}))", name, most,
                         envelope.member_elements.at(name));
    } else {
      std::string sizes;
      for (std::size_t d = 0; d < arg.shape.size(); ++d)
        sizes += fmt::format("{}c.s_{}[{}]", d == 0 ? "" : ", ", name, d);
      fits = fmt::format("at_most(volume({}), INT64_C({}))", sizes, most);
    }
    if (!arg.optional_dim.empty())
      fits = fmt::format("(c.d_{}.value == 0 || {})", arg.optional_dim, fits);
    test += " &&\n      " + fits;
  }
  return test;
}

absl::Status OperatorWriter::Guard(std::size_t k) {
  const BundleKernel& kernel = bundle_.kernels[k];
  Line("// Whether {} was tested for the call; without `scalars` for any values of scalars.",
       kernel.id);
  Line(
      "inline bool guard_{}(const Call& c, ::fettle_expr::Checked multiprocessors, bool scalars) "
      "{{\n  (void)c;\n  (void)multiprocessors;\n  (void)scalars;",
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
      test += VolumeTest(envelope);
      std::string values;
      for (const auto& [name, range] : envelope.scalars) {
        const std::string field = CppIdentifier(name);
        const bool real = IsFloat(model_.FindArg(name)->type.dtype);
        if (real) {
          values += fmt::format(" &&\n      c.args.{0} >= {1:.17g} && c.args.{0} <= {2:.17g}",
                                field, range.first, range.second);
        } else {
          values += fmt::format(
              " &&\n      c.args.{0} >= INT64_C({1}) && c.args.{0} <= INT64_C({2})", field,
              static_cast<std::int64_t>(range.first), static_cast<std::int64_t>(range.second));
        }
      }
      if (!values.empty()) test += fmt::format(" && (!scalars || (true{}))", values);
      Line("  tested = tested || ({});", test);
    }
    Line("  if (!tested) return false;");
  }
  const auto names = NamesFor(&kernel, TargetOf(kernel));
  for (const auto* list : {&kernel.kernel.guards, &kernel.kernel.constraints}) {
    for (const Expr& condition : *list) {
      FETTLE_ASSIGN_OR_RETURN(const std::string text, EmitExpr(condition, names, false));
      Line("  if (!holds({})) return false;  // {}", text, condition.text());
    }
  }
  Line("  return true;\n}}\n");
  return absl::OkStatus();
}

absl::Status OperatorWriter::Kernels() {
  FETTLE_RETURN_IF_ERROR(ArrayVolumes());
  for (std::size_t k = 0; k < bundle_.kernels.size(); ++k) {
    const BundleKernel& kernel = bundle_.kernels[k];
    FETTLE_RETURN_IF_ERROR(Guard(k));
    FETTLE_ASSIGN_OR_RETURN(PlanCpp plan,
                            EmitPlan(model_, kernel.kernel, NamesFor(&kernel, TargetOf(kernel))));
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

}  // namespace fettle
