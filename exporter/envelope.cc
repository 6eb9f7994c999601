// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "core/status_macros.h"
#include "core/task_model.h"
#include "exporter/bundle_model.h"

namespace fettle {
namespace {

// The power of two, at most 16, that divides all values.
std::int64_t Divisor(const std::vector<std::int64_t>& values) {
  std::int64_t divisor = 0;
  for (const std::int64_t value : values) divisor = std::gcd(divisor, value);
  if (divisor == 0) return 1;
  return std::min<std::int64_t>(divisor & -divisor, 16);
}

// What the cases of one selector hold.
struct Tested {
  std::map<std::string, std::vector<std::int64_t>> dims;
  std::map<std::string, std::int64_t> elements, member_elements;
  std::map<std::string, std::pair<double, double>> scalars;
};

void AddScalars(const TaskModel& model, const BoundCase& bound_case, Tested& tested) {
  for (const BoundScalar& scalar : bound_case.scalars) {
    const ArgDecl* arg = model.FindArg(scalar.name);
    if (arg == nullptr || arg->value_kind != ArgDecl::Value::kPerCase) continue;
    const double value = IsFloat(scalar.dtype) ? scalar.real : static_cast<double>(scalar.integer);
    auto [entry, fresh] = tested.scalars.try_emplace(scalar.name, value, value);
    entry->second = {std::min(entry->second.first, value), std::max(entry->second.second, value)};
  }
}

void AddElements(const TaskModel& model, const BoundCase& bound_case, Tested& tested) {
  for (const ArgDecl& arg : model.args) {
    if (arg.role == Role::kScalar || arg.role == Role::kNone) continue;
    // Of an array, all members. Binding keeps each tensor below 2^44 elements and arrays below 2^13
    // members. One without members counts too: as nothing.
    std::int64_t sum = 0, largest = 0;
    for (const BoundTensor& tensor : bound_case.tensors) {
      if (tensor.name != arg.name) continue;
      sum += tensor.elements();
      largest = std::max(largest, tensor.elements());
    }
    std::int64_t& most = tested.elements[arg.name];
    most = std::max(most, sum);
    if (arg.each == nullptr) continue;
    std::int64_t& most_each = tested.member_elements[arg.name];
    most_each = std::max(most_each, largest);
  }
}

}  // namespace

absl::StatusOr<std::vector<Envelope>> EnvelopesOf(const ProvenVariant& variant) {
  const Task& task = *variant.task;
  std::map<BuildSelector, Tested> seen;
  FETTLE_ASSIGN_OR_RETURN(const std::vector<BoundCase> cases,
                          OwnCases(task, variant.provenance->target));
  for (const BoundCase& bound_case : cases) {
    FETTLE_ASSIGN_OR_RETURN(const bool supported, AppliesTo(variant, bound_case));
    if (!supported) continue;
    Tested& tested = seen[SelectorOf(task, bound_case)];
    for (const BoundDim& dim : bound_case.dims) {
      if (!dim.is_list && !dim.values.empty()) tested.dims[dim.name].push_back(dim.values[0]);
    }
    AddScalars(task.model(), bound_case, tested);
    AddElements(task.model(), bound_case, tested);
  }
  std::vector<Envelope> envelopes;
  for (auto& [selector, tested] : seen) {
    Envelope envelope;
    envelope.selector = selector;
    for (const auto& [name, values] : tested.dims) {
      envelope.dims[name] = {*std::min_element(values.begin(), values.end()),
                             *std::max_element(values.begin(), values.end()), Divisor(values)};
    }
    envelope.elements = std::move(tested.elements);
    envelope.member_elements = std::move(tested.member_elements);
    envelope.scalars = std::move(tested.scalars);
    envelopes.push_back(std::move(envelope));
  }
  return envelopes;
}

}  // namespace fettle
