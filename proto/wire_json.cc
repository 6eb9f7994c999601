// SPDX-License-Identifier: Apache-2.0
#include "proto/wire_json.h"

#include "core/json_text.h"

namespace fettle {

using nlohmann::json;

// What the server sends wraps documents that nest to the limit themselves.
constexpr int kMost = 2 * kMaxJsonNesting;

json ParseDocument(const std::string& text) {
  json document = ParseJson(text, kMost);
  return document.is_discarded() ? json() : document;
}

std::int64_t ToNs(const google::protobuf::Timestamp& time) {
  return time.seconds() * 1'000'000'000 + time.nanos();
}

std::string JobStateName(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_QUEUED:
      return "queued";
    case v1::JOB_STATE_RUNNING:
      return "running";
    case v1::JOB_STATE_SUCCEEDED:
      return "succeeded";
    case v1::JOB_STATE_FAILED:
      return "failed";
    case v1::JOB_STATE_CANCELLED:
      return "cancelled";
    default:
      return "unknown";
  }
}

bool IsFinal(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
}

json ToJson(const v1::Budget& budget) {
  return {{"candidates", budget.candidates()},
          {"wall_ms", budget.wall_ms()},
          {"device_ms", budget.device_ms()},
          {"tokens", budget.tokens()},
          {"usd", budget.usd()}};
}

json ToJson(const v1::Job& job) {
  json counts = json::object();
  for (const auto& [verdict, count] : job.verdict_counts()) counts[verdict] = count;
  json result = {{"id", job.id()},
                 {"task_digest", job.task_digest()},
                 {"task_name", job.task_name()},
                 {"target", job.target()},
                 {"proposer", job.proposer()},
                 {"state", JobStateName(job.state())},
                 {"message", job.message()},
                 {"budget", ToJson(job.budget())},
                 {"spent", ToJson(job.spent())},
                 {"candidate_count", job.candidate_count()},
                 {"verdict_counts", counts},
                 {"best_variant_id", job.best_variant_id()},
                 {"best_ratio_declared", job.best_ratio_declared()},
                 {"best_ratio_tuned", job.best_ratio_tuned()},
                 {"created_ns", ToNs(job.created())},
                 {"finished_ns", ToNs(job.finished())},
                 {"last_sequence", job.last_sequence()},
                 {"seed", job.seed()},
                 {"space_size", job.space_size()},
                 {"queue_position", job.queue_position()},
                 {"stage", job.stage()},
                 {"device_model", job.device_model()},
                 {"toolchain", job.toolchain()},
                 {"started_ns", ToNs(job.started())},
                 {"tuned_variant_id", job.tuned_variant_id()}};
  if (job.has_device_use()) {
    result["device_use"] = {{"allocated_s", job.device_use().allocated_s()},
                            {"useful_s", job.device_use().useful_s()},
                            {"idle_s", job.device_use().idle_s()}};
  }
  return result;
}

json ToJson(const v1::JobEvent& event) {
  json result = {{"job_id", event.job_id()},
                 {"sequence", event.sequence()},
                 {"time_ns", ToNs(event.time())},
                 {"terminal", event.terminal()}};
  switch (event.payload_case()) {
    case v1::JobEvent::kStateChanged:
      result["state_changed"] = {{"state", JobStateName(event.state_changed().state())},
                                 {"message", event.state_changed().message()},
                                 {"spent", ToJson(event.state_changed().spent())}};
      break;
    case v1::JobEvent::kStageStarted:
      result["stage_started"] = {{"stage", event.stage_started().stage()},
                                 {"message", event.stage_started().message()}};
      break;
    case v1::JobEvent::kCandidateJudged: {
      const v1::CandidateJudged& judged = event.candidate_judged();
      result["candidate_judged"] = {{"candidate_digest", judged.candidate_digest()},
                                    {"ordinal", judged.ordinal()},
                                    {"values", ParseDocument(judged.values_json())},
                                    {"verdict", judged.verdict()},
                                    {"stage", judged.stage()},
                                    {"reason_code", judged.reason_code()},
                                    {"message", judged.message()},
                                    {"ratio", judged.ratio()},
                                    {"spent", ToJson(judged.spent())}};
      break;
    }
    case v1::JobEvent::kVariantAccepted: {
      const v1::VariantAccepted& accepted = event.variant_accepted();
      result["variant_accepted"] = {{"variant_id", accepted.variant_id()},
                                    {"candidate_digest", accepted.candidate_digest()},
                                    {"ratio", accepted.ratio()},
                                    {"ratio_low", accepted.ratio_low()},
                                    {"ratio_high", accepted.ratio_high()},
                                    {"values", ParseDocument(accepted.values_json())},
                                    {"superseded_variant_id", accepted.superseded_variant_id()}};
      break;
    }
    case v1::JobEvent::kNote:
      result["note"] = {{"code", event.note().code()}, {"text", event.note().text()}};
      break;
    default:
      break;
  }
  return result;
}

json ToJson(const v1::Candidate& candidate) {
  json result = {{"digest", candidate.digest()},
                 {"job_id", candidate.job_id()},
                 {"ordinal", candidate.ordinal()},
                 {"parent", candidate.parent()},
                 {"proposer", candidate.proposer()},
                 {"technique", candidate.technique()},
                 {"values", ParseDocument(candidate.values_json())},
                 {"verdict", ParseDocument(candidate.verdict_json())},
                 {"ratio", candidate.ratio()},
                 {"source_digest", candidate.source_digest()},
                 {"created_ns", ToNs(candidate.created())}};
  if (!candidate.kernel_json().empty()) {
    result["kernel"] = ParseDocument(candidate.kernel_json());
    result["verification"] = ParseDocument(candidate.verification_json());
    result["measurement"] = ParseDocument(candidate.measurement_json());
    result["builds"] = ParseDocument(candidate.builds_json());
    result["rationale"] = candidate.rationale();
    result["transcript"] = candidate.transcript();
  }
  return result;
}

json ToJson(const v1::Variant& variant) {
  json result = {{"id", variant.id()},
                 {"job_id", variant.job_id()},
                 {"candidate_digest", variant.candidate_digest()},
                 {"task_digest", variant.task_digest()},
                 {"task_name", variant.task_name()},
                 {"target", variant.target()},
                 {"device_model", variant.device_model()},
                 {"status", variant.status()},
                 {"values", ParseDocument(variant.values_json())},
                 {"ratio", variant.ratio()},
                 {"ratio_low", variant.ratio_low()},
                 {"ratio_high", variant.ratio_high()},
                 {"ratio_declared", variant.ratio_declared()},
                 {"ratio_tuned", variant.ratio_tuned()},
                 {"roofline_fraction", variant.roofline_fraction()},
                 {"accepted_ns", ToNs(variant.accepted())},
                 {"is_tuned_baseline", variant.is_tuned_baseline()}};
  if (!variant.provenance_json().empty()) {
    result["provenance"] = ParseDocument(variant.provenance_json());
  }
  return result;
}

json ToJson(const v1::Worker& worker) {
  return {{"id", worker.id()},
          {"host", worker.host()},
          {"version", worker.version()},
          {"state", worker.state()},
          {"devices", ParseDocument(worker.devices_json())},
          {"compilers", ParseDocument(worker.compilers_json())},
          {"connected_ns", ToNs(worker.connected())},
          {"leased_units", worker.leased_units()},
          {"device_states", ParseDocument(worker.device_states_json())}};
}

}  // namespace fettle
