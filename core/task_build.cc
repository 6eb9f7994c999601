// SPDX-License-Identifier: Apache-2.0
// Spellings of dtypes and entries, and what must be compiled for a case.

#include <algorithm>

#include <fmt/format.h>

#include "core/digest.h"
#include "core/doc.h"
#include "core/plan_bind.h"
#include "core/task_impl.h"

namespace fettle {
namespace {

// The values that names in a template list stand for.
std::map<std::string, std::int64_t> TemplateValues(const TaskModel& model,
                                                   const TunableValues& values,
                                                   const BoundCase& bound_case) {
  std::map<std::string, std::int64_t> out(values.begin(), values.end());
  for (const BoundDim& dim : bound_case.dims) {
    const auto& specialized = model.specialize;
    if (std::find(specialized.begin(), specialized.end(), dim.name) != specialized.end()) {
      out[dim.name] = dim.values.front();
    }
  }
  return out;
}

std::string SpellFamily(const TaskModel& model, const BoundCase& bound_case,
                        const std::string& family, Dialect dialect) {
  for (const auto& [name, dtype] : bound_case.types) {
    if (name != family) continue;
    const TypeFamily* declared = model.FindType(family);
    if (declared != nullptr) {
      const auto found = declared->spellings.find({dtype, dialect});
      if (found != declared->spellings.end()) return found->second;
    }
    return std::string(SpellDType(dtype, dialect));
  }
  return "$" + family;
}

void CollectEntries(const nlohmann::json& steps, std::vector<std::string>& out) {
  for (const auto& step : steps) {
    if (step.contains("steps")) CollectEntries(step["steps"], out);
    if (step.contains("kernel")) out.push_back(step["kernel"].get<std::string>());
  }
}

}  // namespace

std::string_view SpellDType(DType dtype, Dialect dialect) {
  const bool cuda = dialect == Dialect::kCuda;
  switch (dtype) {
    case DType::kF64:
      return "double";
    case DType::kF32:
      return "float";
    case DType::kF16:
      return "__half";
    case DType::kBF16:
      return cuda ? "__nv_bfloat16" : "__hip_bfloat16";
    case DType::kF8E4M3FN:
      return cuda ? "__nv_fp8_e4m3" : "__hip_fp8_e4m3";
    case DType::kF8E4M3FNUZ:
      return cuda ? "__nv_fp8_e4m3" : "__hip_fp8_e4m3_fnuz";
    case DType::kF8E5M2:
      return cuda ? "__nv_fp8_e5m2" : "__hip_fp8_e5m2";
    case DType::kF8E5M2FNUZ:
      return cuda ? "__nv_fp8_e5m2" : "__hip_fp8_e5m2_fnuz";
    case DType::kF8E8M0:
      return cuda ? "__nv_fp8_e8m0" : "unsigned char";
    case DType::kF4E2M1X2:
      return cuda ? "__nv_fp4x2_e2m1" : "unsigned char";
    case DType::kI64:
      return "long long";
    case DType::kI32:
      return "int";
    case DType::kI16:
      return "short";
    case DType::kI8:
      return "signed char";
    case DType::kU8:
      return "unsigned char";
    case DType::kBool:
      return "bool";
  }
  return "";
}

std::string SpellEntry(const TaskModel& model, const KernelSpec& kernel,
                       const TunableValues& values, const BoundCase& bound_case,
                       const std::string& entry) {
  const auto numbers = TemplateValues(model, values, bound_case);
  const std::size_t open = entry.find('<');
  std::string out;
  for (std::size_t i = 0; i < entry.size();) {
    const bool type = entry[i] == '$';
    const std::size_t start = type ? i + 1 : i;
    std::size_t end = start;
    while (end < entry.size() && IsIdentifier(entry.substr(start, end - start + 1))) ++end;
    if (end == start) {
      out += entry[i++];
      continue;
    }
    const std::string name = entry.substr(start, end - start);
    const auto number = numbers.find(name);
    if (type) {
      out += SpellFamily(model, bound_case, name, kernel.dialect);
    } else if (i > open && number != numbers.end()) {
      out += std::to_string(number->second);
    } else {
      out += name;
    }
    i = end;
    // Digits after a name belong to it; digits alone are copied one by one.
  }
  return out;
}

absl::StatusOr<Task::BuildInputs> Task::BuildInputsFor(const KernelSpec& kernel,
                                                       const TunableValues& values,
                                                       const BoundCase& bound_case,
                                                       const Target& target) const {
  (void)target;  // Spellings follow the kernel's dialect; shims translate them.
  FETTLE_RETURN_IF_ERROR(CheckValues(kernel, values));
  BuildInputs out;
  for (const Tunable& tunable : kernel.tunables) {
    out.macros.emplace_back(tunable.name, std::to_string(values.at(tunable.name)));
  }
  for (const std::string& name : model().specialize) {
    for (const BoundDim& dim : bound_case.dims) {
      if (dim.name == name) out.macros.emplace_back(name, std::to_string(dim.values.front()));
    }
  }
  std::vector<std::string> entries;
  CollectEntries(kernel.launches, entries);
  for (const std::string& entry : entries) {
    std::string spelled = SpellEntry(model(), kernel, values, bound_case, entry);
    if (std::find(out.entries.begin(), out.entries.end(), spelled) == out.entries.end()) {
      out.entries.push_back(std::move(spelled));
    }
  }
  out.key = Sha256Hex(CanonicalJson({{"macros", out.macros}, {"entries", out.entries}}));
  return out;
}

}  // namespace fettle
