// SPDX-License-Identifier: Apache-2.0
#include "core/skeleton.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/doc.h"

namespace fettle {
namespace {

// The dtype of a C++ element type; empty where it is not known.
std::string DTypeOf(const KernelSignature& kernel, const std::string& base) {
  const auto& types = kernel.type_parameters;
  if (std::find(types.begin(), types.end(), base) != types.end()) return "$" + base;
  static const std::map<std::string, std::string> kTypes = {{"float", "f32"},
                                                            {"double", "f64"},
                                                            {"__half", "f16"},
                                                            {"half", "f16"},
                                                            {"_Float16", "f16"},
                                                            {"__nv_bfloat16", "bf16"},
                                                            {"nv_bfloat16", "bf16"},
                                                            {"__hip_bfloat16", "bf16"},
                                                            {"hip_bfloat16", "bf16"},
                                                            {"__nv_fp8_e4m3", "f8e4m3fn"},
                                                            {"__nv_fp8_e5m2", "f8e5m2"},
                                                            {"int", "i32"},
                                                            {"int32_t", "i32"},
                                                            {"unsigned", "i32"},
                                                            {"unsigned int", "i32"},
                                                            {"uint32_t", "i32"},
                                                            {"long", "i64"},
                                                            {"long long", "i64"},
                                                            {"int64_t", "i64"},
                                                            {"unsigned long", "i64"},
                                                            {"unsigned long long", "i64"},
                                                            {"uint64_t", "i64"},
                                                            {"size_t", "i64"},
                                                            {"short", "i16"},
                                                            {"int16_t", "i16"},
                                                            {"char", "i8"},
                                                            {"signed char", "i8"},
                                                            {"int8_t", "i8"},
                                                            {"unsigned char", "u8"},
                                                            {"uint8_t", "u8"},
                                                            {"bool", "bool"}};
  std::string plain = base;
  if (plain.rfind("std::", 0) == 0) plain = plain.substr(5);
  const auto found = kTypes.find(plain);
  return found == kTypes.end() ? "" : found->second;
}

bool IsFloatName(const std::string& dtype) {
  return dtype[0] == 'f' || dtype[0] == 'b' || dtype[0] == '$';
}
bool IsFloatDType(const std::string& dtype) { return IsFloatName(dtype) && dtype != "bool"; }

struct Draft {
  const SkeletonRequest& request;
  const KernelSignature& kernel;
  std::vector<std::string> dims;
  std::vector<std::pair<std::string, std::string>> inputs, outputs;  // Name, dtype.
  std::map<std::string, std::string> macros;  // Tunables by their present value.
  std::string args, launch_args;
};

// `#ifndef BLOCK` / `#define BLOCK 256`: what the source lets the build set.
std::map<std::string, std::string> OverridableMacros(const std::string& source) {
  std::map<std::string, std::string> out;
  constexpr std::string_view kIfndef = "#ifndef ";
  for (std::size_t at = source.find(kIfndef); at != std::string::npos;
       at = source.find(kIfndef, at + 1)) {
    std::size_t end = at + kIfndef.size();
    const std::size_t start = end;
    while (end < source.size() && IsIdentifier(source.substr(start, end - start + 1))) ++end;
    const std::string name = source.substr(start, end - start);
    const std::string define = "#define " + name + " ";
    const std::size_t found = source.find(define, end);
    if (name.empty() || found == std::string::npos || found > end + 4) continue;
    std::size_t digit = found + define.size();
    std::string value;
    while (digit < source.size() && source[digit] >= '0' && source[digit] <= '9' &&
           value.size() < 9) {
      value += source[digit++];
    }
    if (!value.empty()) out[name] = value;
  }
  return out;
}

void AddTensor(const KernelParameter& parameter, const std::string& dtype, Draft& draft) {
  const std::string shape = fmt::format(
      "[{}]", fmt::join(draft.dims.begin(),
                        draft.dims.begin() + static_cast<std::ptrdiff_t>(
                                                 std::min<std::size_t>(2, draft.dims.size())),
                        ", "));
  std::string fields, comment;
  if (!parameter.is_const) {
    fields = fmt::format("role: out, dtype: {}, shape: {}", dtype, shape);
    comment = "FILL IN the shape; 'role: inout' with a fill if the kernel also reads it";
    draft.outputs.emplace_back(parameter.name, dtype);
  } else {
    fields = fmt::format("role: in, dtype: {}, shape: {}, fill: {}", dtype, shape,
                         IsFloatDType(dtype) ? "{normal: [0, 1]}"
                         : dtype == "bool"   ? "{uniform: [0, 1]}"
                                             : "{uniform: [0, 9]}");
    comment = IsFloatDType(dtype)
                  ? "FILL IN the shape"
                  : "FILL IN the shape; for indices 'role: index, range: [0, ROWS], fill: uniform'";
    draft.inputs.emplace_back(parameter.name, dtype);
  }
  if (parameter.pointers > 1) {
    fields = fmt::format("role: pointers, count: 2, each: {{{}}}", fields);
    comment += "; count: how many pointers";
  }
  draft.args += fmt::format("  - {}: {{{}}}  # {}\n", parameter.name, fields, comment);
}

void AddParameter(const KernelParameter& parameter, Draft& draft) {
  const std::string dtype = DTypeOf(draft.kernel, parameter.base);
  if (!draft.launch_args.empty()) draft.launch_args += ", ";
  if (dtype.empty()) {
    draft.launch_args +=
        parameter.pointers > 0 ? "null" : "{struct: {size: 8, align: 8, fields: []}}";
    draft.args +=
        fmt::format("  # FILL IN: '{} {}' is of a type that fettle does not know; {}\n",
                    parameter.type, parameter.name,
                    parameter.pointers > 0 ? "declare it as bytes (dtype u8) or leave it null"
                                           : "describe the struct under 'launches'");
    return;
  }
  draft.launch_args += parameter.name;
  if (parameter.pointers > 0) return AddTensor(parameter, dtype, draft);
  const auto& dims = draft.dims;
  if (std::find(dims.begin(), dims.end(), parameter.name) != dims.end()) {
    draft.args +=
        fmt::format("  - {0}: {{role: scalar, dtype: {1}, value: {0}}}\n", parameter.name, dtype);
  } else {
    draft.args +=
        fmt::format("  - {}: {{role: scalar, dtype: {}, value: {}}}  # FILL IN the value\n",
                    parameter.name, dtype, IsFloatDType(dtype) ? "1.0" : "1");
  }
}

std::string ValuesNear(const std::string& value) {
  const long long number = std::stoll("0" + value);  // Digits only, at most 9.
  std::set<long long> values = {number};
  if (number >= 2 && number % 2 == 0) values.insert(number / 2);
  if (number > 0) values.insert(number * 2);
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::string Tunables(const Draft& draft) {
  std::vector<std::string> lists, values;
  for (const auto& [name, value] : draft.macros) {
    lists.push_back(fmt::format("{}: {}", name, ValuesNear(value)));
    values.push_back(fmt::format("{}: {}", name, value));
  }
  return fmt::format(
      "  tunables: {{{}}}  # FILL IN: what may be varied, as -D macros or template values\n"
      "  values: {{{}}}\n",
      fmt::join(lists, ", "), fmt::join(values, ", "));
}

std::string CaseLine(const Draft& draft, const std::string& size_of_first,
                     const std::string& rest) {
  std::vector<std::string> parts;
  for (const std::string& type : draft.kernel.type_parameters) parts.push_back(type + ": f32");
  for (std::size_t i = 0; i < draft.dims.size(); ++i) {
    parts.push_back(fmt::format("{}: {}", draft.dims[i], i == 0 ? size_of_first : rest));
  }
  return fmt::format("    - {{{}}}\n", fmt::join(parts, ", "));
}

std::string TaskYaml(Draft& draft) {
  const KernelSignature& kernel = draft.kernel;
  std::string out = "# FILL IN the places marked so; docs/task-format.md explains every field.\n";
  out += fmt::format("format: 1\nname: {}\nsummary: FILL IN\n", kernel.name);
  out += "# license: Apache-2.0   # FILL IN: needed for export\n";
  if (!kernel.type_parameters.empty()) {
    std::vector<std::string> families;
    for (const auto& type : kernel.type_parameters) families.push_back(type + ": [f16, bf16, f32]");
    out += fmt::format("types: {{{}}}\n", fmt::join(families, ", "));
  }
  out += "dims:   # the sizes that the kernel must work for; held-out sizes are drawn from here\n";
  for (const std::string& dim : draft.dims)
    out += fmt::format("  {}: {{min: 1, max: 65536}}\n", dim);
  const std::size_t shaped = std::min<std::size_t>(2, draft.dims.size());
  std::vector<std::string> product(draft.dims.begin(),
                                   draft.dims.begin() + static_cast<std::ptrdiff_t>(shaped));
  out += fmt::format("valid: [\"{} <= 2^22\"]   # FILL IN: further conditions between dims\n",
                     fmt::join(product, " * "));
  out += "args:   # in the order of the operator's signature\n" + draft.args;
  out += fmt::format("baseline:\n  source: {}\n", draft.request.source_name);
  const bool hip = draft.request.source.find("hip/hip_") != std::string::npos;
  out += fmt::format("  dialect: {}\n", hip ? "hip" : "cuda");
  out += Tunables(draft);
  out += "  constraints: []\n  workspace: []\n  launches:\n";
  std::vector<std::string> arguments;
  for (const auto& type : kernel.type_parameters) arguments.push_back("$" + type);
  for (const auto& value : kernel.value_parameters) arguments.push_back(value);
  const std::string entry =
      arguments.empty() ? draft.request.kernel
                        : fmt::format("{}<{}>", draft.request.kernel, fmt::join(arguments, ", "));
  const std::string block = draft.macros.contains("BLOCK") ? "BLOCK" : "256";
  out += fmt::format(
      "    - kernel: \"{}\"   # FILL IN grid, block and dynamic shared bytes as today\n"
      "      grid: [\"ceil_div({}, {})\"]\n      block: [{}]\n      shared: 0\n"
      "      args: [{}]\n",
      entry, draft.dims.front(), block, block, draft.launch_args);
  out += fmt::format("reference: {{source: reference.cc, function: {}_ref}}\n", kernel.name);
  out +=
      "cases:\n  timed:     # FILL IN: the sizes of production\n" + CaseLine(draft, "4096", "512");
  out += "  checked:   # small, odd and edge sizes\n" + CaseLine(draft, "1", "1") +
         CaseLine(draft, "3", "257") + CaseLine(draft, "127", "33");
  out += "  held_out: 3\ntolerance:\n";
  for (const auto& [name, dtype] : draft.outputs) {
    out +=
        IsFloatDType(dtype)
            ? fmt::format("  {}: {{auto: {{reduce: {}}}}}   # FILL IN: terms summed per element\n",
                          name, draft.dims.back())
            : fmt::format("  {}: exact\n", name);
  }
  out +=
      "work: {bytes: \"0\", flops: \"0\"}   # FILL IN: the least any version must move and "
      "compute\n";
  out += "contract: {deterministic: true, nonfinite: unspecified}\n";
  return out;
}

std::string ReferenceCc(const Draft& draft) {
  std::string out =
      "// The operator in double precision: the truth that every candidate is compared with.\n"
      "#include <cstdint>\n#include <cstdio>\n#include <cstdlib>\n\n#include "
      "\"fettle_reference.h\"\n\n";
  out += fmt::format("extern \"C\" void {}_ref(fettle_ref* ref) {{\n", draft.kernel.name);
  for (const std::string& dim : draft.dims) {
    out += fmt::format("  [[maybe_unused]] const std::int64_t {0} = fettle_size(ref, \"{0}\");\n",
                       dim);
  }
  for (const auto& [name, dtype] : draft.inputs) {
    if (!IsFloatDType(dtype)) {
      out += fmt::format(
          "  [[maybe_unused]] const std::int64_t* {0} = fettle_input(ref, \"{0}\").integers;\n",
          name);
    } else {
      out += fmt::format(
          "  [[maybe_unused]] const double* {0} = fettle_input(ref, \"{0}\").values;\n", name);
    }
  }
  for (const auto& [name, dtype] : draft.outputs) {
    out += fmt::format(
        "  fettle_result& {0} = fettle_output(ref, \"{0}\");\n"
        "  for (std::int64_t i = 0; i < fettle_row_count({0}); ++i) {{\n"
        "    [[maybe_unused]] const std::int64_t row = fettle_row({0}, i);\n"
        "    // FILL IN: write the elements of this row of {0} to {0}.values, densely.\n"
        "  }}\n",
        name);
  }
  out += fmt::format(
      "  // FILL IN: remove these two lines once the outputs are computed.\n"
      "  std::fprintf(stderr, \"{}_ref in reference.cc is not written yet\\n\");\n"
      "  std::abort();\n}}\n",
      draft.kernel.name);
  return out;
}

absl::StatusOr<KernelSignature> PickKernel(const SkeletonRequest& request) {
  const std::vector<KernelSignature> kernels = FindKernels(request.source);
  if (kernels.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("read {}: no __global__ function found", request.source_name));
  }
  const std::string wanted = request.kernel.substr(request.kernel.rfind(':') + 1);
  std::vector<std::string> names;
  for (const KernelSignature& kernel : kernels) {
    if (kernel.name == wanted) return kernel;
    names.push_back(kernel.name);
  }
  return absl::NotFoundError(fmt::format("read {}: no kernel '{}'; it has {}", request.source_name,
                                         request.kernel, fmt::join(names, ", ")));
}

}  // namespace

absl::StatusOr<TaskFiles> MakeSkeleton(const SkeletonRequest& request) {
  absl::StatusOr<KernelSignature> kernel = PickKernel(request);
  if (!kernel.ok()) return kernel.status();
  Draft draft{request, *kernel, {}, {}, {}, OverridableMacros(request.source), {}, {}};
  std::set<std::string> taken;
  for (const KernelParameter& parameter : kernel->parameters) {
    if (!taken.insert(parameter.name).second || parameter.name.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("read {}: the parameters of '{}' could not be read; name each of them",
                      request.source_name, kernel->name));
    }
    const std::string dtype = DTypeOf(*kernel, parameter.base);
    if (parameter.pointers == 0 && (dtype == "i32" || dtype == "i64")) {
      draft.dims.push_back(parameter.name);
    }
    draft.macros.erase(parameter.name);
  }
  if (draft.dims.empty()) draft.dims.push_back(taken.contains("n") ? "size" : "n");
  for (const std::string& value : kernel->value_parameters) draft.macros.emplace(value, "1");
  for (const KernelParameter& parameter : kernel->parameters) AddParameter(parameter, draft);
  if (draft.outputs.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "read {}: '{}' writes through no pointer of a known type, so there is nothing to check",
        request.source_name, kernel->name));
  }
  TaskFiles files;
  files["reference.cc"] = ReferenceCc(draft);
  files["task.yaml"] = TaskYaml(draft);
  files[request.source_name] = request.source;
  return files;
}

}  // namespace fettle
