// SPDX-License-Identifier: Apache-2.0
#pragma once

// Rows for tests of the store, and of what reads it.

#include <string>

#include "core/status_macros.h"
#include "store/candidate_store.h"
#include "store/job_store.h"
#include "store/records.h"
#include "store/store.h"

namespace fettle {

inline std::string FakeDigest(char fill) { return std::string(64, fill); }

inline JobRow FakeJob(const std::string& id) {
  JobRow job;
  job.id = id;
  job.request_id = "request-" + id;
  job.request_digest = FakeDigest('1');
  job.task_digest = FakeDigest('a');
  job.target = "cpu";
  job.proposer = "tuner";
  job.seed = 0xfedcba9876543210ULL;
  job.created_ns = 1'000;
  job.budget.candidates = 10;
  return job;
}

inline CandidateRow FakeCandidate(const std::string& job_id, std::int64_t ordinal) {
  CandidateRow row;
  row.job_id = job_id;
  row.ordinal = ordinal;
  row.digest = fmt::format("{:064x}", ordinal);
  row.kernel_digest = FakeDigest('b');
  row.values_json = fmt::format("{{\"BLOCK\":{}}}", ordinal);
  row.proposer = "tuner";
  row.created_ns = ordinal;
  return row;
}

// A task, a job and a kernel that candidates may refer to.
inline absl::Status InsertFakeJob(Store& store, const std::string& id) {
  return store.Write([&](Connection& db) -> absl::Status {
    FETTLE_RETURN_IF_ERROR(InsertTask(db, {FakeDigest('a'), "scale", FakeDigest('c'), 1}));
    FETTLE_RETURN_IF_ERROR(InsertKernel(db, {FakeDigest('b'), FakeDigest('d'), "{}"}));
    return InsertJob(db, FakeJob(id));
  });
}

}  // namespace fettle
