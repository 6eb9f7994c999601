// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include "exporter/bundle.h"
#include "fettle/v1/optimizer.pb.h"
#include "server/access.h"
#include "server/dispatcher.h"
#include "server/event_hub.h"
#include "server/executor.h"
#include "server/job_manager.h"
#include "store/store.h"

namespace fettle {

class Fleet;

// All of it outlives the services.
struct OptimizerParts {
  const Access& access;
  Store& store;
  Dispatcher& dispatcher;
  EventHub& events;
  JobManager& jobs;
  Executor& executor;    // Short calls.
  Executor& long_calls;  // Exports; waits for nothing else.
  Clock& clock;
  std::string version;
  const Fleet* fleet = nullptr;  // Null: the server has no workers started.
};

// kInvalidArgument: `id` is empty or too long.
absl::Status CheckId(const char* field, const std::string& id);

// What clients may ask, whichever way they ask it: gRPC and HTTP are frontends of this. Who may ask
// what is decided there. Calls block on the database; thread-safe.
//
// Errors of all: kInvalidArgument names the field; kNotFound: no such job, candidate or variant.
class OptimizerCalls {
 public:
  explicit OptimizerCalls(OptimizerParts parts) : parts_(std::move(parts)) {}

  absl::StatusOr<v1::Job> SubmitJob(const v1::SubmitJobRequest& request) const;
  absl::StatusOr<v1::Job> GetJob(const std::string& id) const;
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request) const;
  absl::StatusOr<v1::Job> CancelJob(const std::string& id) const;
  absl::StatusOr<v1::Job> ResumeJob(const v1::ResumeJobRequest& request) const;
  absl::StatusOr<v1::ListEventsResponse> ListEvents(const v1::ListEventsRequest& request) const;
  absl::StatusOr<v1::ListCandidatesResponse> ListCandidates(
      const v1::ListCandidatesRequest& request) const;
  absl::StatusOr<v1::Candidate> GetCandidate(const v1::GetCandidateRequest& request) const;
  absl::StatusOr<v1::ListVariantsResponse> ListVariants(
      const v1::ListVariantsRequest& request) const;
  // With its provenance; secrets are removed while its job is open.
  absl::StatusOr<v1::Variant> GetVariant(const std::string& id) const;
  absl::StatusOr<BundleFiles> Bundle(const v1::ExportBundleRequest& request) const;
  v1::ListWorkersResponse ListWorkers() const;
  v1::GetServerInfoResponse GetServerInfo() const;

  // The row of a job, and as clients see it.
  absl::StatusOr<JobRow> Job(const std::string& id) const;
  absl::StatusOr<v1::Job> Describe(const JobRow& row) const;
  // How long devices were held for the job, and what of that its units used.
  absl::Status AddDeviceUse(const JobRow& row, v1::Job& job) const;

  const OptimizerParts& parts() const { return parts_; }

 private:
  using Counts = std::map<std::string, std::int64_t>;
  // By verdict. Counting 100,000 candidates takes milliseconds, so it is done once per event.
  absl::StatusOr<Counts> Verdicts(const JobRow& row) const;
  absl::StatusOr<VariantRow> Variant(const std::string& id) const;

  const OptimizerParts parts_;
  mutable std::mutex counts_mutex_;
  // By job, with its last sequence at that time. Guarded by counts_mutex_.
  mutable std::map<std::string, std::pair<std::int64_t, Counts>> counts_;
};

}  // namespace fettle
