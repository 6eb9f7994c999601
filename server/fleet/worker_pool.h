// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/status.h>
#include <absl/status/statusor.h>

namespace fettle {

// A place that was given to one worker, as long as it is known to whoever gave it.
struct PoolAllocation {
  std::string id;
  std::int64_t held_s = 0;  // Since it was given; starts over when it is given again.
};

struct PoolState {
  int running = 0;
  int pending = 0;                          // Asked for, not given yet.
  std::string reason;                       // Why the first of those waits; empty: not known.
  std::string name;                         // What an operator looks for: "Slurm job 12, 15".
  std::vector<PoolAllocation> allocations;  // Of the running ones.
};

// Workers that something else starts and places. Nothing here knows machines or devices.
//
// Errors: kUnavailable: it does not answer, and what was asked for before stays as it is;
// kFailedPrecondition: it refuses, and asking again changes nothing.
// Calls block; one thread at a time.
class WorkerPool {
 public:
  virtual ~WorkerPool() = default;

  // Asks until so many workers run or wait for a place. Of more than that, those that wait are
  // given up; running ones leave by themselves when they are idle. Returns how many were asked for.
  virtual absl::StatusOr<int> Ensure(int workers) = 0;
  virtual absl::StatusOr<PoolState> State() = 0;
  // Ends all of them. Idempotent.
  virtual absl::Status Stop() = 0;

 protected:
  WorkerPool() = default;
  WorkerPool(const WorkerPool&) = default;
  WorkerPool& operator=(const WorkerPool&) = default;
};

}  // namespace fettle
