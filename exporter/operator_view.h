// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/task_model.h"
#include "exporter/bundle_model.h"

namespace fettle {

// How a caller of the operator sees the task: which dims it states, which follow, which arguments
// it passes. The generated header and the PyTorch binding are both made from this.
struct OperatorView {
  std::vector<const DimDecl*> inputs;    // Stated by the caller: plain dims, and what lists decide.
  std::vector<const DimDecl*> computed;  // Plain dims that follow from the inputs.
  // Host lists: needed by a launch, a guard, a constraint or the shape of an array's members.
  std::vector<const DimDecl*> lists;
  std::vector<const DimDecl*> derived_lists;
  std::vector<const ArgDecl*> tensors;  // in, out, inout, index.
  std::vector<const ArgDecl*> pointers;
  std::vector<const ArgDecl*> scalars;  // `per_case` ones.
};
OperatorView ViewOf(const BundleModel& model);

// Lists, and the dims whose value follows from one: they cannot be computed from plain dims.
std::set<std::string> ListDerivedDims(const TaskModel& model);

// The name as a C++ identifier: keywords get an underscore.
std::string CppIdentifier(std::string_view name);
// "layernorm_fwd_1a2b3c4d": the operator's namespace within fettle_ops.
std::string OperatorNamespace(const BundleModel& model);
// The enumerator of fettle::DType.
std::string CppDType(DType dtype);
// A C++ string literal.
std::string CppQuoted(std::string_view text);

}  // namespace fettle
