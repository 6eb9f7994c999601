// SPDX-License-Identifier: Apache-2.0
#include "exporter/operator_writer.h"

namespace fettle {

// Constants and tables of the operator.
void OperatorWriter::SpecTables() {
  const std::string space = OperatorNamespace(bundle_);
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
      "  static constexpr bool kScalars = {6};  // Whether guards depend on scalars of the call.\n"
      "  static const ::fettle::KernelInfo* kernels() {{ return detail::kKernels; }}\n"
      "  static const ::fettle::BuildInfo* builds() {{ return detail::kBuilds; }}\n"
      "  static const ::fettle::TargetInfo* targets() {{ return detail::kTargets; }}\n"
      "  static const char* default_root() {{ return FETTLE_ROOT_{5}; }}\n"
      "  static const ::fettle::EmbeddedObject* embedded() {{ return FETTLE_OBJECTS_{5}; }}\n"
      "  static bool from_source() {{ return FETTLE_BUILT_{5}; }}",
      space, CppQuoted(task_.name()), CppQuoted(bundle_.version), CppQuoted(bundle_.digest),
      bundle_.kernels.size(), space, !view_.scalars.empty());
  Line(
      "  static const ::fettle::CpuHost* cpu_host() {{ return {}; }}\n  static std::int64_t "
      "cpu_cores() {{ return {}; }}",
      for_cpu() ? "::fettle::cpu_host()" : "nullptr", for_cpu() ? "::fettle::cpu_cores()" : "1");
}

// Functions of the operator, which choose among its kernels by number.
void OperatorWriter::SpecFunctions() {
  std::string guards, plans, spaces;
  for (std::size_t k = 0; k < bundle_.kernels.size(); ++k) {
    guards +=
        fmt::format("      case {0}: return detail::guard_{0}(c, multiprocessors, scalars);\n", k);
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
      "  static bool guard(int kernel, const Call& c, const ::fettle::Limits& limits, bool "
      "scalars) "
      "{{\n    const ::fettle_expr::Checked multiprocessors = "
      "::fettle_expr::Num(limits.multiprocessors);\n    switch (kernel) {{\n{}      default: "
      "return false;\n    }}\n  }}\n"
      "  static bool plan(int kernel, const Call& c, ::fettle::Enqueue& q, ::fettle::Carver& w) "
      "{{\n    switch (kernel) {{\n{}      default: return false;\n    }}\n  }}\n"
      "  static void workspace(int kernel, const Call& c, const ::fettle::Limits& limits, "
      "::fettle::Carver& w) {{\n"
      "    const ::fettle_expr::Checked multiprocessors = "
      "::fettle_expr::Num(limits.multiprocessors);\n    switch (kernel) {{\n{}      default: "
      "return;\n    }}\n  }}\n}};\n",
      matches, guards, plans, spaces);
}

void OperatorWriter::Spec() {
  SpecTables();
  SpecFunctions();
  Line(
      "using Operator = ::fettle::Operator<Spec>;\n\n}}  // namespace {}\n}}  // namespace "
      "fettle_ops\n\n#endif",
      OperatorNamespace(bundle_));
}

}  // namespace fettle
