// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "server/fleet/fleet_config.h"
#include "server/fleet/slurm_client.h"
#include "server/fleet/worker_pool.h"

namespace fettle {

// What the workers of one job are started with.
struct SlurmPoolOptions {
  std::string name;     // Of the Slurm jobs, by which they are found again; unique to this pool.
  std::string folder;   // For script and logs; there by now.
  std::string program;  // fettle.
  std::string token_file;
  std::string endpoint, ca_file, server_name;
  FleetTarget target;
};

// The workers of one job as job arrays. Its state is what Slurm says: nothing is remembered here,
// so that a server that starts again finds what it left.
class SlurmPool final : public WorkerPool {
 public:
  // `slurm` must outlive this object.
  SlurmPool(SlurmClient& slurm, SlurmPoolOptions options)
      : slurm_(slurm), options_(std::move(options)) {}

  absl::StatusOr<int> Ensure(int workers) override;
  absl::StatusOr<PoolState> State() override;
  absl::Status Stop() override;

 private:
  absl::StatusOr<std::vector<SlurmTask>> Tasks();

  SlurmClient& slurm_;
  const SlurmPoolOptions options_;
};

// The script that Slurm runs on a node (deploy/slurm/worker.sh with its head filled in).
std::string SlurmScript(const SlurmPoolOptions& options);
// The options of sbatch for so many workers, the script last.
std::vector<std::string> SlurmSubmission(const SlurmPoolOptions& options, int workers,
                                         const std::string& script_file);

}  // namespace fettle
