// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/plan_bind.h"
#include "core/target.h"
#include "exporter/operator_writer.h"

namespace fettle {

void OperatorWriter::Tables() {
  Line("inline constexpr ::fettle::TargetInfo kTargets[] = {{");
  for (const std::string& name : bundle_.targets) {
    const absl::StatusOr<Target> target = FindTarget(name);
    const Vendor vendor = target.ok() ? target->vendor : Vendor::kCpu;
    Line("    {{{}, ::fettle::Backend::{}}},", CppQuoted(name),
         vendor == Vendor::kNvidia ? "kCuda"
         : vendor == Vendor::kAmd  ? "kHip"
                                   : "kCpu");
  }
  if (bundle_.targets.empty()) Line("    {{\"none\", ::fettle::Backend::kCpu}},");
  Line("}};\ninline constexpr ::fettle::KernelInfo kKernels[] = {{");
  for (const BundleKernel& kernel : bundle_.kernels) Line("    {{{}}},", CppQuoted(kernel.id));
  Line("}};");
  const std::string rows = BuildRows();
  Line("inline constexpr ::fettle::BuildInfo kBuilds[] = {{\n{}}};\n", rows);
}

// The selector's symbols in the order of the plan's kernels, whose spelling depends on the types.
std::string OperatorWriter::SymbolsOf(const BundleBuild& build,
                                      const BuildSelector& selector) const {
  const auto kernel = static_cast<std::size_t>(bundle_.KernelIndex(build.kernel));
  BoundCase names;
  for (const auto& [family, dtype] : selector.types) names.types.emplace_back(family, dtype);
  for (const auto& [name, value] : selector.special) names.dims.push_back({name, false, {value}});
  std::string symbols;
  const BundleKernel& spec = bundle_.kernels[kernel];
  for (const std::string& entry : plans_[kernel].entries) {
    const std::string spelled = SpellEntry(model_, spec.kernel, spec.values, names, entry);
    const auto at = std::find(build.entries.begin(), build.entries.end(), spelled);
    symbols +=
        CppQuoted(at == build.entries.end()
                      ? ""
                      : build.symbols[static_cast<std::size_t>(at - build.entries.begin())]) +
        ", ";
  }
  return symbols;
}

// The enumerator of fettle::Evidence.
std::string OperatorWriter::EvidenceOf(const BundleBuild& build) const {
  if (build.status == "run") return "kRun";
  if (build.status == "emulated") return "kEmulated";
  // The production kernel serves as the fallback wherever a variant ran.
  const bool ran =
      build.kernel == kBaselineId &&
      std::any_of(bundle_.builds.begin(), bundle_.builds.end(), [&](const BundleBuild& other) {
        return other.target == build.target && other.status == "run";
      });
  return ran ? "kRun" : "kCompiledOnly";
}

std::string OperatorWriter::BuildRows() {
  std::string rows;
  int index = 0;
  for (const BundleBuild& build : bundle_.builds) {
    const int kernel = bundle_.KernelIndex(build.kernel);
    const PlanCpp& plan = plans_[static_cast<std::size_t>(kernel)];
    const auto target = std::find(bundle_.targets.begin(), bundle_.targets.end(), build.target);
    for (const BuildSelector& selector : build.selectors) {
      Line("inline constexpr const char* kSymbols{}[] = {{{}nullptr}};", index,
           SymbolsOf(build, selector));
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
      rows += fmt::format(
          "    {{{}, {}, ::fettle::Evidence::{}, \"{}\", {}, {}, {}u,\n     \"{}\", {}, "
          "kSymbols{}, {}, {}}},\n",
          kernel, std::distance(bundle_.targets.begin(), target), EvidenceOf(build), types, special,
          CppQuoted(build.path), build.bytes, build.sha256, plan.entries.size(), index, build.waits,
          CppQuoted(build.machine));
      ++index;
    }
  }
  if (index == 0)
    rows =
        "    {0, -1, ::fettle::Evidence::kCompiledOnly, \"\", nullptr, \"\", 0u, \"\", 0, nullptr, "
        "false, \"\"},\n";
  return rows;
}

}  // namespace fettle
