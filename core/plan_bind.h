// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "core/task_model.h"

namespace fettle {

// What an expression of a plan or constraint sees for one case: dims, element sizes, tunables and
// target values.
ExprScope ScopeOf(const BoundCase& bound_case);
void AddTunables(const TunableValues& values, ExprScope& scope);
void AddTarget(const Target& target, ExprScope& scope);

// See Task::BindPlan. `check_limits`: refuse what the target cannot launch.
absl::StatusOr<BoundPlan> BindLaunches(const TaskModel& model, const KernelSpec& kernel,
                                       const TunableValues& values, const BoundCase& bound_case,
                                       const Target& target, bool check_limits);

// "layernorm_fwd<$T, BLOCK>" with types and values spelled for the kernel's dialect.
std::string SpellEntry(const TaskModel& model, const KernelSpec& kernel,
                       const TunableValues& values, const BoundCase& bound_case,
                       const std::string& entry);
// The C++ spelling of a dtype in a dialect.
std::string_view SpellDType(DType dtype, Dialect dialect);

// The bytes of a value as a kernel parameter. kInvalidArgument: it does not fit the dtype.
absl::StatusOr<std::vector<std::uint8_t>> EncodeValue(DType dtype, std::int64_t integer);
std::vector<std::uint8_t> EncodeReal(DType dtype, double value);

}  // namespace fettle
