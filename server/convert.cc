// SPDX-License-Identifier: Apache-2.0
#include "server/convert.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/status_macros.h"
#include "core/text.h"
#include "server/errors.h"
#include "server/job_events.h"
#include "server/job_measures.h"
#include "server/limits.h"
#include "server/timestamps.h"

namespace fettle {

v1::Job JobToProto(const JobRow& job, const std::map<std::string, std::int64_t>& verdicts) {
  v1::Job out;
  out.set_id(job.id);
  out.set_task_digest(job.task_digest);
  out.set_task_name(job.task_name);
  out.set_target(job.target);
  out.set_proposer(job.proposer);
  out.set_state(JobStateToProto(job.state));
  out.set_message(ValidUtf8(job.message));
  *out.mutable_budget() = BudgetToProto(job.budget);
  *out.mutable_spent() = BudgetToProto(job.spent);
  out.set_candidate_count(job.candidate_count);
  for (const auto& [verdict, count] : verdicts) (*out.mutable_verdict_counts())[verdict] = count;
  out.set_best_variant_id(job.best_variant);
  out.set_best_ratio_declared(job.best_ratio_declared);
  out.set_best_ratio_tuned(job.best_ratio_tuned);
  *out.mutable_created() = TimestampFromNs(job.created_ns);
  if (job.finished_ns != 0) *out.mutable_finished() = TimestampFromNs(job.finished_ns);
  out.set_last_sequence(job.last_sequence);
  out.set_seed(job.seed);
  out.set_space_size(job.space_size);
  out.set_stage(job.stage);
  out.set_device_model(job.device_model);
  out.set_toolchain(job.toolchain);
  if (job.started_ns != 0) *out.mutable_started() = TimestampFromNs(job.started_ns);
  out.set_tuned_variant_id(job.tuned_variant);
  return out;
}

v1::Candidate CandidateToProto(const CandidateRow& row) {
  v1::Candidate out;
  out.set_digest(row.digest);
  out.set_job_id(row.job_id);
  out.set_ordinal(row.ordinal);
  out.set_parent(row.parent);
  out.set_proposer(row.proposer);
  out.set_technique(row.technique);
  out.set_values_json(row.values_json);
  if (!row.verdict_json.empty()) {
    out.set_verdict_json(
        WithoutSecrets(nlohmann::json::parse(row.verdict_json, nullptr, /*allow_exceptions=*/false))
            .dump(-1, ' ', false, kReplaceInvalid));
  }
  out.set_ratio(row.ratio);
  out.set_source_digest(row.source_digest);
  *out.mutable_created() = TimestampFromNs(row.created_ns);
  return out;
}

v1::Variant VariantToProto(const VariantRow& row) {
  v1::Variant out;
  out.set_id(row.id);
  out.set_job_id(row.job_id);
  out.set_candidate_digest(row.candidate_digest);
  out.set_task_digest(row.task_digest);
  out.set_task_name(row.task_name);
  out.set_target(row.target);
  out.set_device_model(row.device_model);
  out.set_status(row.status);
  out.set_values_json(row.values_json);
  out.set_ratio(row.ratio);
  out.set_ratio_low(row.ratio_low);
  out.set_ratio_high(row.ratio_high);
  out.set_ratio_declared(row.ratio_declared);
  out.set_ratio_tuned(row.ratio_tuned);
  out.set_roofline_fraction(row.roofline_fraction);
  *out.mutable_accepted() = TimestampFromNs(row.accepted_ns);
  out.set_is_tuned_baseline(row.is_tuned_baseline);
  return out;
}

absl::StatusOr<int> PageSize(int wanted) {
  if (wanted < 0) return errors::BadField("page_size", "must not be negative");
  if (wanted == 0) return limits::kDefaultPageSize;
  return std::min(wanted, limits::kMaxPageSize);
}

std::string TimeToken(std::int64_t ns, const std::string& id) {
  return fmt::format("{}:{}", ns, id);
}

absl::StatusOr<std::int64_t> ParseOrdinalToken(const std::string& token) {
  std::int64_t value = 0;
  if (token.empty()) return value;
  const char* end = token.data() + token.size();
  const auto [rest, error] = std::from_chars(token.data(), end, value);
  if (error != std::errc() || rest != end || value < 0) {
    return errors::BadField("page_token", "must be a next_page_token of this call, or empty");
  }
  return value;
}

absl::StatusOr<std::pair<std::int64_t, std::string>> ParseTimeToken(const std::string& token) {
  const auto colon = token.find(':');
  if (!token.empty() && colon == std::string::npos) {
    return errors::BadField("page_token", "must be a next_page_token of this call, or empty");
  }
  FETTLE_ASSIGN_OR_RETURN(const std::int64_t ns, ParseOrdinalToken(token.substr(0, colon)));
  return std::pair(ns, token.empty() ? std::string() : token.substr(colon + 1));
}

}  // namespace fettle
