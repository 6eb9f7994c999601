// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "server/fleet/worker_pool.h"
#include "server/local_worker.h"

namespace fettle {

// Workers as processes of this machine; each is started again when it ends.
class LocalPool final : public WorkerPool {
 public:
  // `command`: program and arguments of each.
  explicit LocalPool(std::vector<std::string> command) : command_(std::move(command)) {}

  absl::StatusOr<int> Ensure(int workers) override;
  absl::StatusOr<PoolState> State() override;
  absl::Status Stop() override;

  // Process ids of those that run.
  std::vector<pid_t> pids() const;

 private:
  const std::vector<std::string> command_;
  std::vector<std::unique_ptr<LocalWorker>> workers_;
};

}  // namespace fettle
