// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "core/task_model.h"

namespace fettle {

// One kernel's launch plan as the body of a generated C++ function
//   bool plan(const Call& c, fettle::Enqueue& q, fettle::Carver& w)
// and its workspace as the body of one that only carves.
struct PlanCpp {
  std::string plan, workspace;
  std::vector<std::string> entries;  // Distinct kernel texts of the plan: the order of symbols.
};

// `names`: C++ of dims, lists, element sizes ("sizeof(T)"), tunables and target values.
// kFailedPrecondition: see OperatorHeader.
absl::StatusOr<PlanCpp> EmitPlan(const TaskModel& model, const KernelSpec& kernel,
                                 const std::map<std::string, std::string>& names);

// An expression as C++. `exact`: an inexact `/` fails, as in shapes and grids.
absl::StatusOr<std::string> EmitExpr(const Expr& expr,
                                     const std::map<std::string, std::string>& names, bool exact);

// Element size of an argument: "2" or "c.size_T".
std::string ElementSizeCpp(const TypeRef& type);

}  // namespace fettle
