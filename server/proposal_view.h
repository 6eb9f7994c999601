// SPDX-License-Identifier: Apache-2.0
#pragma once

// What proposers are shown of a job: bar, brief, attempts. Reads the store; secrets are removed
// here.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <absl/status/statusor.h>
#include <nlohmann/json.hpp>

#include "core/task.h"
#include "core/work_unit.h"
#include "judge/accept.h"
#include "store/records.h"
#include "store/store.h"

namespace fettle {

// {job, denominator, incumbent, to_beat, roofline, budget, waiting}. `waiting` as in GetJob.
absl::StatusOr<nlohmann::json> BarOf(const Store& store, const JobRow& job,
                                     const judge::AcceptanceRule& rule, const std::string& waiting);

inline constexpr std::string_view kBriefSections[] = {"overview",  "source",   "plan", "task",
                                                      "reference", "hardware", "rules"};
// The text of a section other than the overview. kInvalidArgument lists the sections.
absl::StatusOr<std::string> BriefText(const Task& task, const JobRow& job,
                                      const std::string& section);
nlohmann::json BriefOverview(const Task& task, const JobRow& job, nlohmann::json bar);

// One line of a job's history.
nlohmann::json AttemptJson(const CandidateRow& row);

// The search's evaluation of a candidate, secrets removed; unset: it has none.
absl::StatusOr<std::optional<UnitResult>> EvaluationOf(const Store& store, const CandidateRow& row);
// agent/feedback.h for a stored candidate.
absl::StatusOr<nlohmann::json> FeedbackOf(const Store& store, const CandidateRow& row);

}  // namespace fettle
