// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/bundle_model.h"
#include "exporter/operator_view.h"

namespace fettle {

// An operator as PyTorch sees it: tensors, then dims that no tensor shows, then scalars per call;
// in the `_out` form the outputs follow. Holds views of `model`, which must outlive it.
struct TorchSignature {
  // Where a dim can be read: a tensor that is always given, and the axis.
  struct Origin {
    std::string tensor;
    std::size_t axis = 0;
  };

  explicit TorchSignature(const BundleModel& bundle);

  // Whether a schema can say it: no arrays of tensors, no lists in host memory, and every family's
  // dtype seen in a tensor that the caller passes.
  bool possible() const;
  std::optional<Origin> OriginOf(std::string_view dim) const;
  // The tensor that shows a family's dtype, as an identifier; empty: none does.
  std::string TensorOfFamily(std::string_view family) const;
  std::vector<const ArgDecl*> Outputs() const;
  // Identifiers of the arguments in order.
  std::vector<std::string> Names(bool outputs) const;

  const BundleModel& model;
  const OperatorView view;
  const TaskModel& task;
  const std::string space, name;            // "layernorm_fwd_1a2b3c4d", "layernorm_fwd"
  std::vector<const DimDecl*> stated_dims;  // Dims that no tensor shows.
  std::string out_name;                     // The form that writes into given outputs.
  std::string first;                        // The tensor whose device decides.
};

// integrations/torch/binding.cpp and integrations/torch/op.py.
std::string TorchCpp(const TorchSignature& signature);
std::string TorchPython(const TorchSignature& signature);

}  // namespace fettle
