// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <absl/status/statusor.h>

#include "fettle/v1/optimizer.pb.h"
#include "server/job_run.h"

namespace fettle {

// All jobs of a server: accepts them, runs a few at a time in order of arrival, and takes up after
// a restart what was open. Thread-safe; calls block on the database.
class JobManager {
 public:
  explicit JobManager(JobContext context);
  ~JobManager();

  // Takes up the open jobs. Call once, before workers can connect.
  absl::Status Start();
  // Ends all job threads; jobs stay as stored. Idempotent.
  void Stop();

  // kInvalidArgument names the field; kAlreadyExists: the request id was used for another request;
  // kResourceExhausted: too many open jobs.
  absl::StatusOr<JobRow> Submit(const v1::SubmitJobRequest& request);
  // kNotFound; kFailedPrecondition: it has ended.
  absl::StatusOr<JobRow> Cancel(const std::string& job_id);
  // kFailedPrecondition: it has not ended. kInvalidArgument: the budget is spent already.
  absl::StatusOr<JobRow> Resume(const std::string& job_id, const v1::Budget& budget);
  // What a job waits for; empty: nothing.
  std::string Waiting(const std::string& job_id) const;
  // Place in the queue, from 1; 0: it does not wait for its turn.
  std::int64_t QueuePosition(const std::string& job_id) const;

  // Of the jobs that run.
  std::vector<JobDemand> Demands() const;

  // Wakes the job's thread if it has one: a client handed something in.
  void Poke(const std::string& job_id);
  // The budget of device time of a job that runs; else null.
  std::shared_ptr<DeviceTime> DeviceTimeOf(const std::string& job_id) const;

  void WorkersChanged();
  // Called whenever jobs begin or end to run; must not block. Before Start.
  void SetJobsChanged(std::function<void()> listener) { jobs_changed_ = std::move(listener); }

 private:
  struct Queued {
    std::string id;
    bool waits = false;  // JobRun::mostly_waits.
  };

  // Starts queued jobs while there is room. Requires mutex_.
  void Fill();
  void RunHasEnded(const std::string& job_id);
  void Reap();
  absl::Status Queue(Queued job);

  JobContext context_;
  std::function<void()> jobs_changed_;
  mutable std::mutex mutex_;
  std::condition_variable reap_wake_;
  std::map<std::string, std::unique_ptr<JobRun>> active_;  // Guarded by mutex_.
  std::deque<Queued> queue_;                               // Guarded by mutex_.
  std::vector<std::unique_ptr<JobRun>> ended_;             // Guarded by mutex_. To be joined.
  bool stopping_ = false;                                  // Guarded by mutex_.
  std::thread reaper_;
};

}  // namespace fettle
