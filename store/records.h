// SPDX-License-Identifier: Apache-2.0
#pragma once

// Rows of the store as values. Field meanings as in store/schema.cc.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fettle {

// Limits or amounts; 0: no limit, or nothing.
struct BudgetRow {
  std::int64_t candidates = 0;
  std::int64_t wall_ms = 0;
  std::int64_t device_ms = 0;
  std::int64_t tokens = 0;
  double usd = 0;
};

struct TaskRow {
  std::string digest, name, blob;
  std::int64_t created_ns = 0;
};

struct RegistrationRow {
  std::string task_digest, target, fettle_version;
  bool passed = false;
  std::string result_json;
  std::int64_t created_ns = 0;
};

namespace job_state {
inline constexpr char kQueued[] = "queued";
inline constexpr char kRunning[] = "running";
inline constexpr char kSucceeded[] = "succeeded";
inline constexpr char kFailed[] = "failed";
inline constexpr char kCancelled[] = "cancelled";
}  // namespace job_state

namespace job_stage {
inline constexpr char kRegister[] = "register";
inline constexpr char kTune[] = "tune";  // Finds the tuned baseline.
inline constexpr char kSearch[] = "search";
}  // namespace job_stage

struct JobRow {
  // Fixed once inserted.
  std::string id, request_id, request_digest, task_digest, proposer, options_json;
  std::uint64_t seed = 0;
  std::int64_t created_ns = 0;
  // Written by UpdateJob.
  std::string target, device_model, toolchain;
  std::string state = job_state::kQueued, stage = job_stage::kRegister, message;
  BudgetRow budget, spent;
  std::int64_t candidate_count = 0, judged_count = 0, since_improvement = 0, confirmations = 0;
  std::int64_t incumbent_ordinal = 0;
  double incumbent_ratio = 1;
  std::string tuned_variant;
  double tuned_ratio = 0;
  std::string best_variant;
  double best_ratio_declared = 0, best_ratio_tuned = 0;
  std::string space_size;
  std::int64_t last_sequence = 0, started_ns = 0, finished_ns = 0;

  // Filled by reads only.
  std::string task_name;
  bool cancel_requested = false;
  bool terminal() const { return state != job_state::kQueued && state != job_state::kRunning; }
};

struct EventRow {
  std::int64_t sequence = 0;
  std::int64_t time_ns = 0;
  bool terminal = false;
  std::string payload;
};

struct KernelRow {
  std::string digest, source_digest, json;
};

namespace candidate_state {
inline constexpr char kEvaluating[] = "evaluating";
inline constexpr char kConfirming[] = "confirming";
inline constexpr char kJudged[] = "judged";
}  // namespace candidate_state

struct CandidateRow {
  std::string job_id;
  std::int64_t ordinal = 0;
  std::string digest, kernel_digest, values_json, parent, proposer, technique, rationale;
  std::string stage = job_stage::kSearch;
  std::string state = candidate_state::kEvaluating;
  std::int64_t judged_order = 0;
  std::string verdict, verdict_json;
  double ratio = 0;
  std::int64_t created_ns = 0, judged_ns = 0;
  std::string source_digest;  // Filled by reads only.
};

namespace unit_state {
inline constexpr char kPending[] = "pending";
inline constexpr char kLeased[] = "leased";
inline constexpr char kDone[] = "done";
inline constexpr char kReturned[] = "returned";
inline constexpr char kCancelled[] = "cancelled";
}  // namespace unit_state

struct UnitRow {
  std::string id;
  int attempt = 1;
  std::string job_id;
  std::int64_t ordinal = 0;
  std::string kind;
  std::string state = unit_state::kPending;
  std::string worker_id;
  std::uint64_t seed = 0, held_out_seed = 0;
  std::int64_t incumbent_ordinal = 0;
  std::int64_t device_cap_ms = 0;  // WorkUnit::device_cap_ms.
  std::int64_t device_ms = 0;      // What an attempt took that ended without a result.
  std::string reason;
  std::int64_t created_ns = 0, leased_ns = 0, ended_ns = 0;
};

struct MeasurementRow {
  std::string against, case_label;
  double weight = 1, a_median_ns = 0, b_median_ns = 0, ratio = 1, ratio_low = 1, ratio_high = 1;
  double aa_spread = 0, bytes_per_s = 0, flops_per_s = 0, floor_ns = 0, roofline_fraction = 0;
  std::int64_t blocks = 0, discarded_blocks = 0;
};

struct BuildRow {
  std::string build_key, code_object, compiler;
  bool cache_hit = false;
  std::int64_t elapsed_ns = 0;
  std::string status = "run";
};

struct EvaluationRow {
  std::string unit_id;
  int attempt = 1;
  std::string job_id;
  std::int64_t ordinal = 0;
  std::string kind, verdict;
  std::optional<bool> verification_passed;
  std::int64_t compile_ns = 0, device_ns = 0, wall_ns = 0;
  std::string worker_id, host, device_model, driver, compiler, fettle_version;
  std::int64_t stored_ns = 0;
  std::string result_json;
  std::vector<MeasurementRow> measurements;
  std::vector<BuildRow> builds;
};

namespace variant_status {
inline constexpr char kAccepted[] = "accepted";
inline constexpr char kSuperseded[] = "superseded";
inline constexpr char kDemoted[] = "demoted";
}  // namespace variant_status

struct VariantRow {
  std::string id, job_id;
  std::int64_t ordinal = 0;
  std::string candidate_digest, task_digest, target, device_model, toolchain;
  std::string status = variant_status::kAccepted, status_reason, values_json;
  double ratio = 0, ratio_low = 0, ratio_high = 0, ratio_declared = 0, ratio_tuned = 0;
  double roofline_fraction = 0;
  bool is_tuned_baseline = false;
  std::string parent_variant;
  std::int64_t accepted_ns = 0;
  std::string provenance_json;  // Empty in lists.
  std::string task_name;        // Filled by reads only.
};

namespace proposal_state {
inline constexpr char kQueued[] = "queued";
inline constexpr char kTaken[] = "taken";
}  // namespace proposal_state

struct ProposalRow {
  std::string job_id;
  std::int64_t sequence = 0;
  std::string key, request_digest, candidate_digest;
  std::string state = proposal_state::kQueued;
  std::string kernel_json, parent, technique, rationale;
  std::int64_t fit = 0;
  std::int64_t created_ns = 0;
};

struct DirectionRow {
  std::string direction, holder;
  std::int64_t until_ns = 0;
};

// Verdict of a try under way, whose device_ms is what is reserved for it.
inline constexpr char kOpenTry[] = "OPEN";

struct TryRow {
  std::string job_id;
  std::int64_t sequence = 0;
  std::string mode, candidate_digest, verdict;
  std::int64_t device_ms = 0, created_ns = 0;
};

namespace call_state {
inline constexpr char kSent[] = "sent";
inline constexpr char kAnswered[] = "answered";
inline constexpr char kFailed[] = "failed";
inline constexpr char kLost[] = "lost";  // In flight when the server ended; charged in full.
}  // namespace call_state

struct AgentCallRow {
  std::string job_id;
  std::int64_t sequence = 0;
  std::string kind, model, request_digest;
  std::string request, reply;  // JSON documents; empty in lists.
  std::string state = call_state::kSent, error;
  std::int64_t tokens = 0;
  double usd = 0;
  std::int64_t device_ms = 0, created_ns = 0, ended_ns = 0;
};

}  // namespace fettle
