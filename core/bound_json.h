// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/bound.h"

namespace fettle {

// JSON forms of bound cases and plans. Reading is strict: kInvalidArgument on an unknown, missing
// or mistyped field; consistency (shapes against strides, indices in range) is checked too, so that
// what was read can be used without further checks.
nlohmann::json ToJson(const BoundCase& bound_case);
absl::StatusOr<BoundCase> BoundCaseFromJson(const nlohmann::json& json);
nlohmann::json ToJson(const BoundPlan& plan);
absl::StatusOr<BoundPlan> BoundPlanFromJson(const nlohmann::json& json);

std::string_view RoleName(Role role);
std::optional<Role> ParseRole(std::string_view name);
std::string_view CaseSetName(CaseSet set);  // "timed", "checked", "held_out".
std::optional<CaseSet> ParseCaseSet(std::string_view name);

}  // namespace fettle
