// SPDX-License-Identifier: Apache-2.0
#include "exporter/torch_signature.h"

#include <algorithm>

namespace fettle {

TorchSignature::TorchSignature(const BundleModel& bundle)
    : model(bundle),
      view(ViewOf(bundle)),
      task(bundle.task->model()),
      space(OperatorNamespace(bundle)),
      name(CppIdentifier(bundle.task->name())) {
  for (const DimDecl* dim : view.inputs) {
    if (!OriginOf(dim->name)) stated_dims.push_back(dim);
  }
  out_name = Outputs().empty() ? name : name + "_out";
  for (const ArgDecl* arg : view.tensors) {
    if (arg->role != Role::kOut && arg->optional_dim.empty() && first.empty()) {
      first = CppIdentifier(arg->name);
    }
  }
}

bool TorchSignature::possible() const {
  if (!view.pointers.empty() || !view.lists.empty() || first.empty()) return false;
  return std::all_of(task.types.begin(), task.types.end(), [&](const TypeFamily& family) {
    return !TensorOfFamily(family.name).empty();
  });
}

std::optional<TorchSignature::Origin> TorchSignature::OriginOf(std::string_view dim) const {
  for (const ArgDecl* arg : view.tensors) {
    if (arg->role == Role::kOut || !arg->optional_dim.empty()) continue;
    for (std::size_t axis = 0; axis < arg->shape.size(); ++axis) {
      if (arg->shape[axis].text() == dim) return Origin{CppIdentifier(arg->name), axis};
    }
  }
  return std::nullopt;
}

std::string TorchSignature::TensorOfFamily(std::string_view family) const {
  for (const ArgDecl* arg : view.tensors) {
    if (arg->role != Role::kOut && arg->optional_dim.empty() && arg->type.family == family)
      return CppIdentifier(arg->name);
  }
  return "";
}

std::vector<const ArgDecl*> TorchSignature::Outputs() const {
  std::vector<const ArgDecl*> outputs;
  for (const ArgDecl* arg : view.tensors) {
    if (arg->role == Role::kOut) outputs.push_back(arg);
  }
  return outputs;
}

std::vector<std::string> TorchSignature::Names(bool outputs) const {
  std::vector<std::string> names;
  for (const ArgDecl* arg : view.tensors) {
    if (arg->role != Role::kOut) names.push_back(CppIdentifier(arg->name));
  }
  for (const DimDecl* dim : stated_dims) names.push_back(CppIdentifier(dim->name));
  for (const ArgDecl* arg : view.scalars) names.push_back(CppIdentifier(arg->name));
  if (!outputs) return names;
  for (const ArgDecl* arg : Outputs()) names.push_back(CppIdentifier(arg->name));
  return names;
}

}  // namespace fettle
