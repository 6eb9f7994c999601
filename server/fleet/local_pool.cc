// SPDX-License-Identifier: Apache-2.0
#include "server/fleet/local_pool.h"

#include <fmt/format.h>

namespace fettle {

absl::StatusOr<int> LocalPool::Ensure(int workers) {
  int asked = 0;
  for (; static_cast<int>(workers_.size()) < workers; ++asked) {
    workers_.push_back(std::make_unique<LocalWorker>(command_));
  }
  return asked;
}

absl::StatusOr<PoolState> LocalPool::State() {
  PoolState state;
  for (const auto& worker : workers_) {
    if (worker->gave_up()) continue;
    // Between two starts it waits for a place, in the words of other pools.
    ++(worker->pid() > 0 ? state.running : state.pending);
  }
  state.name = fmt::format("processes {}", fmt::join(pids(), ", "));
  return state;
}

absl::Status LocalPool::Stop() {
  for (const auto& worker : workers_) worker->Stop();
  workers_.clear();
  return absl::OkStatus();
}

std::vector<pid_t> LocalPool::pids() const {
  std::vector<pid_t> pids;
  for (const auto& worker : workers_) {
    if (const pid_t pid = worker->pid(); pid > 0) pids.push_back(pid);
  }
  return pids;
}

}  // namespace fettle
