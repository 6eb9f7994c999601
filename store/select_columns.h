// SPDX-License-Identifier: Apache-2.0
#pragma once

// The columns of jobs and variants, in the order in which their readers expect them.

#include "store/database.h"
#include "store/records.h"

#define FETTLE_JOB_FIXED \
  "id, request_id, request_digest, task_digest, proposer, options_json, seed, created_ns"
#define FETTLE_JOB_MUTABLE                                                               \
  "target, device_model, toolchain, state, stage, message, "                             \
  "budget_candidates, budget_wall_ms, budget_device_ms, budget_tokens, budget_usd, "     \
  "spent_candidates, spent_wall_ms, spent_device_ms, spent_tokens, spent_usd, "          \
  "candidate_count, judged_count, since_improvement, confirmations, incumbent_ordinal, " \
  "incumbent_ratio, tuned_variant, tuned_ratio, best_variant, best_ratio_declared, "     \
  "best_ratio_tuned, space_size, last_sequence, started_ns, finished_ns"
#define FETTLE_JOB_SELECT                            \
  "SELECT " FETTLE_JOB_FIXED ", " FETTLE_JOB_MUTABLE \
  ", (SELECT name FROM tasks WHERE digest = jobs.task_digest), cancel_requested FROM jobs "

#define FETTLE_VARIANT_COLUMNS                                                            \
  "id, job_id, ordinal, candidate_digest, task_digest, target, device_model, toolchain, " \
  "status, status_reason, values_json, ratio, ratio_low, ratio_high, ratio_declared, "    \
  "ratio_tuned, roofline_fraction, is_tuned_baseline, parent_variant, accepted_ns"
#define FETTLE_VARIANT_SELECT                 \
  "SELECT " FETTLE_VARIANT_COLUMNS            \
  ", (SELECT name FROM tasks WHERE digest = " \
  "variants.task_digest)"

namespace fettle {

// A row of FETTLE_JOB_SELECT, and of FETTLE_VARIANT_SELECT (without provenance).
JobRow ReadJobRow(const Statement& statement);
VariantRow ReadVariantRow(const Statement& statement);

}  // namespace fettle
