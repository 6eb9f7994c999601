// SPDX-License-Identifier: Apache-2.0
#include "worker/test_vectors.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/bound_json.h"
#include "core/status_macros.h"
#include "core/target.h"
#include "core/task_model.h"
#include "verifier/compare.h"
#include "verifier/inputs.h"
#include "worker/lane.h"

namespace fettle {
namespace {

using nlohmann::json;

bool Writes(const BoundTensor& tensor) {
  return tensor.role == Role::kOut || tensor.role == Role::kInOut;
}

bool IsDense(const BoundTensor& tensor) { return tensor.extent() == tensor.elements(); }

// Whether plain tensors and sizes say everything about the case.
bool Suits(const BoundCase& bound_case, const TestVectorOptions& options) {
  if (!bound_case.pointers.empty() || CaseBytes(bound_case) > options.most_bytes) return false;
  bool any = false;
  for (const BoundTensor& tensor : bound_case.tensors) {
    if (!IsDense(tensor)) return false;
    any = any || (Writes(tensor) && tensor.elements() > 0);
  }
  for (const BoundTolerance& tolerance : bound_case.tolerances) {
    if (tolerance.kind == BoundTolerance::Kind::kChecker || tolerance.raw) return false;
  }
  return any;
}

std::string Doubles(const std::vector<double>& values) {
  std::string bytes(values.size() * sizeof(double), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string Bytes(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

json CaseEntry(const BoundCase& bound_case) {
  json types = json::object(), dims = json::object(), lists = json::object(),
       scalars = json::object();
  for (const auto& [family, dtype] : bound_case.types)
    types[family] = std::string(DTypeName(dtype));
  for (const BoundDim& dim : bound_case.dims) {
    if (dim.is_list) {
      lists[dim.name] = dim.values;
    } else {
      dims[dim.name] = dim.values.front();
    }
  }
  for (const BoundScalar& scalar : bound_case.scalars) {
    scalars[scalar.name] = IsFloat(scalar.dtype) ? json(scalar.real) : json(scalar.integer);
  }
  return {{"label", bound_case.label}, {"types", types},          {"dims", dims}, {"lists", lists},
          {"scalars", scalars},        {"tensors", json::array()}};
}

absl::Status AddCase(const BoundCase& bound_case, const TaskFiles& task_files, Reference& reference,
                     const TestVectorOptions& options, json& index,
                     std::map<std::string, std::string>& files) {
  const InputSpec spec{.seed = options.seed};
  FETTLE_ASSIGN_OR_RETURN(const auto inputs,
                          MakeInputs(bound_case, spec, FillFiles(bound_case, task_files)));
  FETTLE_ASSIGN_OR_RETURN(const auto expected, reference.Evaluate(bound_case, spec));
  std::string prefix = bound_case.label;
  std::replace(prefix.begin(), prefix.end(), '/', '_');
  json entry = CaseEntry(bound_case);
  for (std::size_t i = 0; i < bound_case.tensors.size(); ++i) {
    const BoundTensor& tensor = bound_case.tensors[i];
    json line = {{"name", tensor.name},
                 {"role", std::string(RoleName(tensor.role))},
                 {"dtype", std::string(DTypeName(tensor.dtype))},
                 {"bytes", StorageBytes(tensor.dtype, tensor.elements())},
                 {"null", tensor.is_null}};
    const std::string base = fmt::format("{}.{}", prefix, tensor.name);
    if (!tensor.is_null && tensor.role != Role::kOut) {
      line["input"] = base + ".bin";
      files[base + ".bin"] = Bytes(inputs[i]);
    }
    const auto output = std::find_if(
        expected->outputs.begin(), expected->outputs.end(),
        [&](const ExpectedOutput& one) { return one.tensor == static_cast<std::int64_t>(i); });
    if (output != expected->outputs.end() && output->rows.empty() && !output->values.empty()) {
      const ElementTolerance tolerance(ToleranceFor(bound_case, tensor.name), tensor.dtype,
                                       *output);
      std::vector<double> values, bounds;
      for (std::size_t e = 0; e < output->values.size(); ++e) {
        // What the dtype can hold: beyond its range, infinity is right.
        const double value = output->values[e];
        const double rounded = IsFloat(tensor.dtype) ? RoundTo(tensor.dtype, value) : value;
        values.push_back(rounded);
        const double bound = tolerance(static_cast<std::int64_t>(e));
        bounds.push_back(bound +
                         (rounded == rounded && value == value ? std::abs(rounded - value) : 0));
      }
      line["expected"] = base + ".expected.bin";
      line["tolerance"] = base + ".tolerance.bin";
      files[base + ".expected.bin"] = Doubles(values);
      files[base + ".tolerance.bin"] = Doubles(bounds);
    }
    entry["tensors"].push_back(std::move(line));
  }
  index["cases"].push_back(std::move(entry));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> MakeTestVectors(
    const Task& task, const TestVectorOptions& options) {
  std::map<std::string, std::string> files;
  FETTLE_ASSIGN_OR_RETURN(const Target cpu, FindTarget("cpu"));
  FETTLE_ASSIGN_OR_RETURN(const std::vector<BoundCase> cases,
                          task.BindCases(CaseSet::kChecked, options.seed, cpu));
  std::vector<const BoundCase*> chosen;
  for (const BoundCase& bound_case : cases) {
    if (static_cast<int>(chosen.size()) < options.most_cases && Suits(bound_case, options)) {
      chosen.push_back(&bound_case);
    }
  }
  if (chosen.empty()) return files;
  DeviceInfo device;
  device.id = "cpu";
  device.target = cpu;
  Lane lane(device, {.runner_path = options.runner_path, .cache_dir = options.cache_dir});
  FETTLE_ASSIGN_OR_RETURN(const auto state, lane.StateFor(task));
  Reference* const reference = state->reference.get();
  json index = {{"format", 1}, {"seed", options.seed}, {"cases", json::array()}};
  for (const BoundCase* bound_case : chosen) {
    FETTLE_RETURN_IF_ERROR(AddCase(*bound_case, task.files(), *reference, options, index, files));
  }
  files["index.json"] = index.dump(2) + "\n";
  return files;
}

}  // namespace fettle
