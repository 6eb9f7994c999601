// SPDX-License-Identifier: Apache-2.0
#include "server/optimizer_calls.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/status_macros.h"
#include "core/text.h"
#include "exporter/provenance.h"
#include "server/convert.h"
#include "server/errors.h"
#include "server/fleet/fleet.h"
#include "server/ids.h"
#include "server/job_events.h"
#include "server/job_measures.h"
#include "server/limits.h"
#include "server/timestamps.h"
#include "store/agent_call_store.h"
#include "store/candidate_store.h"
#include "store/fleet_store.h"
#include "store/job_store.h"
#include "store/variant_store.h"

namespace fettle {
namespace {

constexpr std::size_t kMaxBundleVariants = 1'000;
constexpr std::size_t kMaxKnownCounts = 20'000;

}  // namespace

absl::Status CheckId(const char* field, const std::string& id) {
  if (id.empty()) return errors::BadField(field, "must not be empty");
  if (id.size() > limits::kMaxNameBytes) {
    return errors::TooLong(field, id.size(), limits::kMaxNameBytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<JobRow> OptimizerCalls::Job(const std::string& id) const {
  FETTLE_RETURN_IF_ERROR(CheckId("job_id", id));
  std::optional<JobRow> row;
  FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(row, FindJob(db, id));
    return absl::OkStatus();
  }));
  if (!row.has_value()) return errors::NoSuchJob(id);
  return *std::move(row);
}

absl::StatusOr<OptimizerCalls::Counts> OptimizerCalls::Verdicts(const JobRow& row) const {
  {
    const std::lock_guard lock(counts_mutex_);
    const auto known = counts_.find(row.id);
    if (known != counts_.end() && known->second.first == row.last_sequence) {
      return known->second.second;
    }
  }
  Counts verdicts;
  FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(verdicts, VerdictCounts(db, row.id));
    return absl::OkStatus();
  }));
  const std::lock_guard lock(counts_mutex_);
  if (counts_.size() >= kMaxKnownCounts) counts_.clear();
  counts_[row.id] = {row.last_sequence, verdicts};
  return verdicts;
}

absl::Status OptimizerCalls::AddDeviceUse(const JobRow& row, v1::Job& job) const {
  std::int64_t held_s = 0;
  FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(held_s, SumAllocations(db, row.id));
    return absl::OkStatus();
  }));
  if (held_s == 0) return absl::OkStatus();
  v1::DeviceUse& use = *job.mutable_device_use();
  use.set_allocated_s(static_cast<double>(held_s));
  use.set_useful_s(static_cast<double>(row.spent.device_ms) / 1000);
  use.set_idle_s(std::max(0.0, use.allocated_s() - use.useful_s()));
  job.set_message(job.message() + (job.message().empty() ? "" : "; ") +
                  fmt::format("held {:.2f} device-hours, used {:.2f} of them ({:.0f} %)",
                              use.allocated_s() / 3600, use.useful_s() / 3600,
                              100 * use.useful_s() / use.allocated_s()));
  return absl::OkStatus();
}

absl::StatusOr<v1::Job> OptimizerCalls::Describe(const JobRow& row) const {
  FETTLE_ASSIGN_OR_RETURN(const Counts verdicts, Verdicts(row));
  v1::Job job = JobToProto(row, verdicts);
  if (!row.terminal()) {
    std::string waiting = parts_.jobs.Waiting(row.id);
    const std::string workers = parts_.fleet == nullptr ? "" : parts_.fleet->Describe(row.id);
    if (!workers.empty()) waiting += (waiting.empty() ? "" : "; ") + workers;
    if (!waiting.empty()) job.set_message(ValidUtf8(waiting));
    job.set_queue_position(parts_.jobs.QueuePosition(row.id));
  }
  FETTLE_RETURN_IF_ERROR(AddDeviceUse(row, job));
  return job;
}

absl::StatusOr<v1::Job> OptimizerCalls::SubmitJob(const v1::SubmitJobRequest& request) const {
  FETTLE_ASSIGN_OR_RETURN(const JobRow row, parts_.jobs.Submit(request));
  return Describe(row);
}

absl::StatusOr<v1::Job> OptimizerCalls::GetJob(const std::string& id) const {
  FETTLE_ASSIGN_OR_RETURN(const JobRow row, Job(id));
  return Describe(row);
}

absl::StatusOr<v1::ListJobsResponse> OptimizerCalls::ListJobs(
    const v1::ListJobsRequest& request) const {
  v1::ListJobsResponse response;
  FETTLE_ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  FETTLE_ASSIGN_OR_RETURN(const auto before, ParseTimeToken(request.page_token()));
  std::vector<JobRow> rows;
  FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(rows, fettle::ListJobs(db, before.first, before.second, size));
    return absl::OkStatus();
  }));
  for (const JobRow& row : rows) {
    FETTLE_ASSIGN_OR_RETURN(*response.add_jobs(), Describe(row));
  }
  if (static_cast<int>(rows.size()) == size) {
    response.set_next_page_token(TimeToken(rows.back().created_ns, rows.back().id));
  }
  return response;
}

absl::StatusOr<v1::Job> OptimizerCalls::CancelJob(const std::string& id) const {
  FETTLE_RETURN_IF_ERROR(CheckId("job_id", id));
  FETTLE_ASSIGN_OR_RETURN(const JobRow row, parts_.jobs.Cancel(id));
  return Describe(row);
}

absl::StatusOr<v1::Job> OptimizerCalls::ResumeJob(const v1::ResumeJobRequest& request) const {
  FETTLE_RETURN_IF_ERROR(CheckId("job_id", request.job_id()));
  FETTLE_ASSIGN_OR_RETURN(const JobRow row, parts_.jobs.Resume(request.job_id(), request.budget()));
  return Describe(row);
}

absl::StatusOr<v1::ListEventsResponse> OptimizerCalls::ListEvents(
    const v1::ListEventsRequest& request) const {
  v1::ListEventsResponse response;
  if (request.after_sequence() < 0) {
    return errors::BadField("after_sequence", "must not be negative");
  }
  FETTLE_ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  FETTLE_ASSIGN_OR_RETURN(const JobRow job, Job(request.job_id()));
  std::vector<EventRow> rows;
  FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(rows, ReadEvents(db, job.id, request.after_sequence(), size));
    return absl::OkStatus();
  }));
  for (const EventRow& row : rows) {
    const bool last = job.terminal() && row.sequence == job.last_sequence;
    FETTLE_ASSIGN_OR_RETURN(*response.add_events(), EventToProto(job.id, row, last));
  }
  return response;
}

absl::StatusOr<v1::ListCandidatesResponse> OptimizerCalls::ListCandidates(
    const v1::ListCandidatesRequest& request) const {
  v1::ListCandidatesResponse response;
  FETTLE_ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  FETTLE_ASSIGN_OR_RETURN(const std::int64_t after, ParseOrdinalToken(request.page_token()));
  if (!request.verdict().empty() && !ParseVerdict(request.verdict()).has_value()) {
    return errors::BadField("verdict", "must be a verdict such as WIN or NO_WIN, or empty");
  }
  FETTLE_ASSIGN_OR_RETURN(const JobRow job, Job(request.job_id()));
  std::vector<CandidateRow> rows;
  FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(rows,
                            fettle::ListCandidates(db, job.id, request.verdict(), after, size));
    return absl::OkStatus();
  }));
  for (const CandidateRow& row : rows) *response.add_candidates() = CandidateToProto(row);
  if (static_cast<int>(rows.size()) == size) {
    response.set_next_page_token(std::to_string(rows.back().ordinal));
  }
  return response;
}

absl::StatusOr<v1::Candidate> OptimizerCalls::GetCandidate(
    const v1::GetCandidateRequest& request) const {
  FETTLE_RETURN_IF_ERROR(CheckId("digest", request.digest()));
  FETTLE_ASSIGN_OR_RETURN(const JobRow job, Job(request.job_id()));
  std::optional<CandidateRow> row;
  std::optional<KernelRow> kernel;
  std::vector<EvaluationRow> evaluations;
  std::string transcript;
  FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(row, FindCandidateByDigest(db, job.id, request.digest()));
    if (!row.has_value()) return errors::NoSuchCandidate(job.id, request.digest());
    FETTLE_ASSIGN_OR_RETURN(kernel, FindKernel(db, row->kernel_digest));
    FETTLE_ASSIGN_OR_RETURN(evaluations, ListEvaluations(db, job.id, row->ordinal));
    FETTLE_ASSIGN_OR_RETURN(transcript, FindTranscript(db, job.id, row->digest));
    return absl::OkStatus();
  }));
  v1::Candidate out = CandidateToProto(*row);
  out.set_transcript(transcript);
  out.set_rationale(ValidUtf8(row->rationale));
  if (kernel.has_value()) {
    auto block = nlohmann::json::parse(kernel->json, nullptr, /*allow_exceptions=*/false);
    if (block.is_object()) block["values"] = ParseValues(row->values_json);
    out.set_kernel_json(block.dump(-1, ' ', false, kReplaceInvalid));
  }
  // The confirmation, where there was one, is the last and the one that decided.
  for (const EvaluationRow& evaluation : evaluations) {
    auto result =
        nlohmann::json::parse(evaluation.result_json, nullptr, /*allow_exceptions=*/false);
    if (!result.is_object()) continue;
    if (!job.terminal()) result = WithoutSecrets(std::move(result));
    const auto keep = [&](const char* key, auto set) {
      const auto found = result.find(key);
      if (found != result.end() && !found->is_null()) set(found->dump());
    };
    keep("verification", [&](std::string text) { out.set_verification_json(std::move(text)); });
    keep("screening", [&](std::string text) {
      if (out.measurement_json().empty()) out.set_measurement_json(std::move(text));
    });
    keep("measurement", [&](std::string text) { out.set_measurement_json(std::move(text)); });
    keep("builds", [&](std::string text) { out.set_builds_json(std::move(text)); });
  }
  return out;
}

absl::StatusOr<v1::ListVariantsResponse> OptimizerCalls::ListVariants(
    const v1::ListVariantsRequest& request) const {
  v1::ListVariantsResponse response;
  FETTLE_ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  FETTLE_ASSIGN_OR_RETURN(const auto before, ParseTimeToken(request.page_token()));
  if (!request.status().empty() && request.status() != variant_status::kAccepted &&
      request.status() != variant_status::kSuperseded &&
      request.status() != variant_status::kDemoted) {
    return errors::BadField("status", "must be accepted, superseded, demoted, or empty");
  }
  const VariantFilter filter{request.task_name(), request.target(), request.job_id(),
                             request.status()};
  std::vector<VariantRow> rows;
  FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(rows,
                            fettle::ListVariants(db, filter, before.first, before.second, size));
    return absl::OkStatus();
  }));
  for (const VariantRow& row : rows) *response.add_variants() = VariantToProto(row);
  if (static_cast<int>(rows.size()) == size) {
    response.set_next_page_token(TimeToken(rows.back().accepted_ns, rows.back().id));
  }
  return response;
}

absl::StatusOr<VariantRow> OptimizerCalls::Variant(const std::string& id) const {
  FETTLE_RETURN_IF_ERROR(CheckId("variant_id", id));
  std::optional<VariantRow> row;
  std::optional<JobRow> job;
  FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
    FETTLE_ASSIGN_OR_RETURN(row, FindVariant(db, id));
    if (!row.has_value()) return errors::NoSuchVariant(id);
    FETTLE_ASSIGN_OR_RETURN(job, FindJob(db, row->job_id));
    return absl::OkStatus();
  }));
  auto document = nlohmann::json::parse(row->provenance_json, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) {
    return absl::DataLossError(fmt::format("the provenance of variant {} is damaged", row->id));
  }
  if (job.has_value() && !job->terminal()) document = WithoutSecrets(std::move(document));
  document["variant"]["status"] = row->status;  // As of now; the rest is as it was accepted.
  if (!row->status_reason.empty()) document["variant"]["status_reason"] = row->status_reason;
  row->provenance_json = document.dump(-1, ' ', false, kReplaceInvalid);
  return *std::move(row);
}

absl::StatusOr<v1::Variant> OptimizerCalls::GetVariant(const std::string& id) const {
  FETTLE_ASSIGN_OR_RETURN(const VariantRow row, Variant(id));
  v1::Variant variant = VariantToProto(row);
  variant.set_provenance_json(row.provenance_json);
  return variant;
}

absl::StatusOr<BundleFiles> OptimizerCalls::Bundle(const v1::ExportBundleRequest& request) const {
  std::vector<std::string> ids(request.variant_ids().begin(), request.variant_ids().end());
  const bool choose = ids.empty();
  if (choose) {
    if (request.task_name().empty()) {
      return errors::BadField("variant_ids", "name variants, or set task_name");
    }
    // Superseded ones too: what lost overall may be best at some size.
    const VariantFilter filter{request.task_name(), request.target(), "", ""};
    FETTLE_RETURN_IF_ERROR(parts_.store.Read([&](Connection& db) -> absl::Status {
      FETTLE_ASSIGN_OR_RETURN(
          const std::vector<VariantRow> rows,
          fettle::ListVariants(db, filter, 0, "", static_cast<int>(kMaxBundleVariants)));
      for (const VariantRow& row : rows) {
        // Of the newest form of a task of that name.
        const bool same = row.task_digest == rows.front().task_digest;
        if (same && row.status != variant_status::kDemoted) ids.push_back(row.id);
      }
      return absl::OkStatus();
    }));
    if (ids.empty()) {
      return absl::NotFoundError(
          fmt::format("task_name: task {} has no accepted variant{}", request.task_name(),
                      request.target().empty() ? "" : " for target " + request.target()));
    }
  }
  if (ids.size() > kMaxBundleVariants) {
    return errors::BadField("variant_ids", fmt::format("at most {} at once", kMaxBundleVariants));
  }
  std::vector<VariantProvenance> variants;
  for (const std::string& id : ids) {
    FETTLE_ASSIGN_OR_RETURN(const VariantRow row, Variant(id));
    FETTLE_ASSIGN_OR_RETURN(VariantProvenance parsed, ParseProvenance(row.provenance_json));
    variants.push_back(std::move(parsed));
  }
  if (choose) {
    FETTLE_ASSIGN_OR_RETURN(variants, ChooseVariants(variants, parts_.store.blobs()));
  }
  return BuildBundle(variants, parts_.store.blobs());
}

v1::ListWorkersResponse OptimizerCalls::ListWorkers() const {
  v1::ListWorkersResponse response;
  for (const WorkerView& view : parts_.dispatcher.Workers()) {
    v1::Worker& worker = *response.add_workers();
    worker.set_id(view.id);
    worker.set_host(view.host);
    worker.set_version(view.version);
    worker.set_state(view.state);
    worker.set_devices_json(view.devices_json);
    worker.set_compilers_json(view.compilers_json);
    *worker.mutable_connected() = TimestampFromNs(view.connected_ns);
    worker.set_leased_units(view.held);
    nlohmann::json states = nlohmann::json::array();
    for (const DeviceReport& report : view.reports) {
      nlohmann::json state = DeviceReportJson(report.row);
      state["load"] = report.load;
      states.push_back(std::move(state));
    }
    worker.set_device_states_json(states.dump(-1, ' ', false, kReplaceInvalid));
  }
  return response;
}

v1::GetServerInfoResponse OptimizerCalls::GetServerInfo() const {
  v1::GetServerInfoResponse response;
  response.set_version(parts_.version);
  response.set_data_dir_id(parts_.store.data_dir_id());
  response.set_schema_version(parts_.store.schema_version());
  return response;
}

}  // namespace fettle
