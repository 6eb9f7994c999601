// SPDX-License-Identifier: Apache-2.0
#pragma once

// Internal to core: what Task holds, shared by the files that implement it.

#include <cstdint>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "core/plan_bind.h"
#include "core/status_macros.h"
#include "core/task.h"
#include "core/task_model.h"

namespace fettle {

struct Task::Impl {
  TaskFiles files;
  TaskModel model;
  std::string digest;
};

// Whether `values` gives every tunable of `kernel` one value, and nothing else. Values outside the
// tunables' lists are fine: a tuner may refine.
absl::Status CheckValues(const KernelSpec& kernel, const TunableValues& values);

// Binds one declared or drawn case. `salt` separates the random streams of the cases of a set.
absl::StatusOr<BoundCase> BindCase(const TaskModel& model, const TaskFiles& files,
                                   const CaseDecl& declared, CaseSet set, std::string label,
                                   std::uint64_t seed, std::uint64_t salt);

// Canonical JSON of the parsed task (defaults filled in, files as digests).
nlohmann::json CanonicalTask(const TaskModel& model, const TaskFiles& files);

// Sets `work_*` of a case; `unique` has the number of distinct values of index arguments.
absl::Status BindWork(const TaskModel& model, const std::map<std::string, std::int64_t>& unique,
                      BoundCase& bound_case);

// One value of a dim's domain, evaluated over the dims above.
struct DimDomain {
  std::vector<std::int64_t> in;
  std::int64_t min = 0, max = 0, multiple_of = 1;
  std::optional<std::int64_t> other;
  bool Contains(std::int64_t value) const;
  std::string Describe() const;
};
absl::StatusOr<DimDomain> DomainOf(const DimDecl& dim, const ExprScope& scope);

}  // namespace fettle
